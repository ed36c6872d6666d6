// Values of JSON files, read or refused: every error is Error(bad_input) and says what stands there.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bad_value.h"
#include "tessera/error.h"
#include "tessera/json.h"

namespace tessera {

// Runs `read` with `where` named in front of what it throws.
template <class F>
auto at(std::string_view where, F read) {
  try {
    return read();
  } catch (const Error& e) { throw e.on(where); }
}

// The members of an object, each of which must be asked for before finish().
class Members {
 public:
  explicit Members(const Json& object) : object_(object), left_(object.members().size()) {}
  const Json* find(std::string_view key);
  const Json& at(std::string_view key);
  // Refuses keys that were not asked for; `all_keys` are suggested instead.
  void finish(const std::vector<std::string>& all_keys = {}) const;

 private:
  const Json& object_;
  size_t left_;
  std::vector<std::string> known_;
};

int64_t read_count(const Json& j, int64_t low, int64_t high = int64_t{1} << 50);
int read_int(const Json& j, int low, int high = 1 << 24);
double read_number(const Json& j, double low);
// A word from a list of names, as its position.
int read_word(const Json& j, std::span<const std::string_view> names);
// Words, none of them empty or twice.
std::vector<std::string> read_strings(const Json& j);
Json write_strings(const std::vector<std::string>& values);

// "16x16x32".
using Triple = std::array<int, 3>;
Triple read_triple(const Json& j);
std::string triple_text(const Triple& t);

}  // namespace tessera
