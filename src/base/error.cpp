#include "tessera/error.h"

#include <array>

namespace tessera {
namespace {

constexpr std::array<std::string_view, 8> kNames = {
    "bad_input", "unsupported", "compile_failed", "device", "io", "corrupt", "internal", "interrupted"};

std::string message(ErrorCode code, const std::string& happened, const std::string& remedy) {
  std::string text(to_string(code));
  text += ": " + happened;
  if (!remedy.empty()) text += "; " + remedy;
  return text;
}

}  // namespace

std::string_view to_string(ErrorCode code) { return kNames[static_cast<size_t>(code)]; }

Error::Error(ErrorCode code, const std::string& what_happened, const std::string& what_to_do)
    : std::runtime_error(message(code, what_happened, what_to_do)),
      code_(code),
      what_happened_(what_happened),
      what_to_do_(what_to_do) {}

Error Error::on(std::string_view subject) const {
  return Error(code_, std::string(subject) + ": " + what_happened_, what_to_do_);
}

}  // namespace tessera
