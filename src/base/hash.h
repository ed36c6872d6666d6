// Content hashes: names of cache entries and checksums of stored bytes. Not for secrets.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace tessera {

inline constexpr size_t kContentHashLength = 32;

// 128 bits as 32 lower-case hex digits. Boundaries count: {"ab", "c"} and {"a", "bc"} differ.
std::string content_hash(std::initializer_list<std::string_view> parts);
inline std::string content_hash(std::string_view text) { return content_hash({text}); }

// Whether it is lower-case hex digits, at least one.
inline bool is_hex(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace tessera
