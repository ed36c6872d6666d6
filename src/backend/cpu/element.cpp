#include "backend/cpu/element.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tessera {
namespace {

// sign, exponent and mantissa fields of a small float; NaN and infinity where the format has them.
float small_float(uint32_t sign, int exponent, int mantissa, int mantissa_bits, int bias, bool special) {
  float magnitude;
  if (special) {
    magnitude = mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits);
  } else {
    magnitude =
        std::ldexp(static_cast<float>(mantissa + (1 << mantissa_bits)), exponent - bias - mantissa_bits);
  }
  return sign ? -magnitude : magnitude;
}

uint16_t bf16_bits(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40);  // NaN
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t f16_bits(float v) {
  constexpr uint32_t kInfinity = 0x7f800000u, kOverflows = 0x477ff000u, kLeastNormal = 0x38800000u;
  const auto bits = std::bit_cast<uint32_t>(v);
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  uint32_t out;
  if (magnitude > kInfinity) {
    out = 0x7e00;
  } else if (magnitude >= kOverflows) {
    out = 0x7c00;
  } else if (magnitude < kLeastNormal) {  // in units of the least subnormal
    out = static_cast<uint32_t>(std::lrint(std::bit_cast<float>(magnitude) * 0x1p24f));
  } else {
    out = (magnitude - (uint32_t{127 - 15} << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  }
  return static_cast<uint16_t>(sign | out);
}

}  // namespace

float read_float(const char* p, DType t) {
  uint8_t byte = 0;
  uint16_t half = 0;
  switch (t) {
    case DType::f32: {
      float f;
      std::memcpy(&f, p, 4);
      return f;
    }
    case DType::bf16: std::memcpy(&half, p, 2); return std::bit_cast<float>(uint32_t{half} << 16);
    case DType::f16:
      std::memcpy(&half, p, 2);
      return small_float(half >> 15, half >> 10 & 31, half & 1023, 10, 15, (half >> 10 & 31) == 31);
    case DType::f8e5m2:
      std::memcpy(&byte, p, 1);
      return small_float(byte >> 7, byte >> 2 & 31, byte & 3, 2, 15, (byte >> 2 & 31) == 31);
    default:
      std::memcpy(&byte, p, 1);
      return small_float(byte >> 7, byte >> 3 & 15, byte & 7, 3, 7, (byte & 127) == 127);
  }
}

void write_float(char* to, DType t, float v) {
  if (t == DType::f32) return void(std::memcpy(to, &v, 4));
  const uint16_t half = t == DType::f16 ? f16_bits(v) : bf16_bits(v);
  std::memcpy(to, &half, 2);
}

}  // namespace tessera
