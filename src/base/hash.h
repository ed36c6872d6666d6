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

}  // namespace tessera
