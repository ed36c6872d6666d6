// The one exception type. Expected outcomes (a rejected config, text that may not parse) are values instead.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace tessera {

enum class ErrorCode { bad_input, unsupported, compile_failed, device, io, corrupt, internal, interrupted };

std::string_view to_string(ErrorCode code);

// what() reads "<code>: <what happened>; <what to do>". `what_to_do` may be empty.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what_happened, const std::string& what_to_do = {});

  ErrorCode code() const { return code_; }
  const std::string& what_happened() const { return what_happened_; }
  const std::string& what_to_do() const { return what_to_do_; }

  // The same error with the problem (or file, or config) it concerns named in front.
  Error on(std::string_view subject) const;

 private:
  ErrorCode code_;
  std::string what_happened_, what_to_do_;
};

}  // namespace tessera
