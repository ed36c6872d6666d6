#include "base/hash.h"

#include <xxhash.h>

#include <array>
#include <cstdint>
#include <memory>

namespace tessera {
namespace {

std::string hex(const XXH128_canonical_t& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned char byte : digest.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

std::string content_hash(std::initializer_list<std::string_view> parts) {
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for (std::string_view part : parts) {
    // Little-endian lengths keep names equal on every machine.
    std::array<unsigned char, 8> length{};
    for (size_t i = 0; i < length.size(); ++i) {
      length[i] = static_cast<unsigned char>(static_cast<uint64_t>(part.size()) >> (8 * i));
    }
    XXH3_128bits_update(state.get(), length.data(), length.size());
    XXH3_128bits_update(state.get(), part.data(), part.size());
  }
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(state.get()));
  return hex(digest);
}

}  // namespace tessera
