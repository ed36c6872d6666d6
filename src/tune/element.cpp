#include "tune/element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tessera {
namespace {

// A binary floating-point format of at most 16 bits.
struct FloatFormat {
  int exponent_bits, mantissa_bits;
  double largest;   // finite
  bool infinities;  // what overflows becomes infinite; else it saturates and only all-ones is NaN

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
  uint32_t exponent_mask() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
};

// f8e5m2 has infinities, but conversion saturates.
struct FormatRow {
  FloatFormat format;
  bool saturates;
};

const FormatRow& format_of(DType t) {
  static const FormatRow f16{{5, 10, 65504.0, true}, false}, bf16{{8, 7, 0x1.fep127, true}, false},
      f8e4m3{{4, 3, 448.0, false}, true}, f8e5m2{{5, 2, 57344.0, true}, true};
  switch (t) {
    case DType::f16: return f16;
    case DType::bf16: return bf16;
    case DType::f8e4m3: return f8e4m3;
    default: return f8e5m2;
  }
}

// Between neighbours of the size of v, which is finite and not 0. Below the least normal number they are as
// far apart as there.
double spacing(int exponent_bias, int mantissa_bits, double v) {
  return std::ldexp(1.0, std::max(std::ilogb(v), 1 - exponent_bias) - mantissa_bits);
}

double round_to_format(const FormatRow& row, double v) {
  const FloatFormat& f = row.format;
  if (std::isnan(v) || v == 0) return v;
  if (std::isinf(v)) return row.saturates ? std::copysign(f.largest, v) : v;
  const double unit = spacing(f.bias(), f.mantissa_bits, v);
  const double rounded = std::nearbyint(v / unit) * unit;
  if (std::fabs(rounded) <= f.largest) return rounded;
  return std::copysign(row.saturates ? f.largest : std::numeric_limits<double>::infinity(), v);
}

// `v` is a value of the format.
uint32_t encode(const FloatFormat& f, double v) {
  const uint32_t sign = std::signbit(v) ? f.sign_bit() : 0;
  if (std::isnan(v)) return f.exponent_mask() | ((1u << f.mantissa_bits) - 1);
  if (std::isinf(v)) return sign | f.exponent_mask();
  if (v == 0) return sign;
  const int exponent = std::max(std::ilogb(v), 1 - f.bias());
  const auto digits = static_cast<uint32_t>(std::ldexp(std::fabs(v), f.mantissa_bits - exponent));
  // A normal number's leading one carries into the exponent field, a denormal's is absent.
  return sign | ((static_cast<uint32_t>(exponent + f.bias() - 1) << f.mantissa_bits) + digits);
}

double decode(const FloatFormat& f, uint32_t bits) {
  const uint32_t magnitude = bits & (f.sign_bit() - 1), mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  const uint32_t exponent = magnitude >> f.mantissa_bits;
  double v;
  if (f.infinities && (magnitude & f.exponent_mask()) == f.exponent_mask()) {
    v = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (!f.infinities && magnitude == f.sign_bit() - 1) {
    v = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    v = std::ldexp(mantissa, 1 - f.bias() - f.mantissa_bits);
  } else {
    v = std::ldexp(mantissa | 1u << f.mantissa_bits, static_cast<int>(exponent) - f.bias() - f.mantissa_bits);
  }
  return bits & f.sign_bit() ? -v : v;
}

std::vector<double> decoded(const FloatFormat& f) {
  std::vector<double> all(2 * f.sign_bit());
  for (uint32_t bits = 0; bits < all.size(); ++bits) all[bits] = decode(f, bits);
  return all;
}

template <class T>
double saturated(double v) {
  if (std::isnan(v)) return 0;
  return std::clamp(std::nearbyint(v), static_cast<double>(std::numeric_limits<T>::min()),
                    static_cast<double>(std::numeric_limits<T>::max()));
}

template <class T>
T at(const void* base, int64_t index) {
  T v;
  std::memcpy(&v, static_cast<const char*>(base) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return v;
}

template <class T>
void put(void* base, int64_t index, T v) {
  std::memcpy(static_cast<char*>(base) + index * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
}

// How one type is read and written.
struct ElementRow {
  double (*round)(double v);
  double (*load)(const void* base, int64_t index);
  void (*store)(void* base, int64_t index, double v);  // v is a value of the type
};

template <DType t, class Bits>
constexpr ElementRow small_float() {
  return {[](double v) { return round_to_format(format_of(t), v); },
          [](const void* base, int64_t i) {
            static const std::vector<double> values = decoded(format_of(t).format);
            return values[at<Bits>(base, i)];
          },
          [](void* base, int64_t i, double v) {
            put(base, i, static_cast<Bits>(encode(format_of(t).format, v)));
          }};
}

template <class T>
constexpr ElementRow integer() {
  return {saturated<T>, [](const void* base, int64_t i) { return static_cast<double>(at<T>(base, i)); },
          [](void* base, int64_t i, double v) { put(base, i, static_cast<T>(v)); }};
}

double round_f32(double v) { return static_cast<double>(static_cast<float>(v)); }

// In the order of DType.
constexpr std::array<ElementRow, kDTypeCount> kRows = {{
    {round_f32, [](const void* base, int64_t i) { return static_cast<double>(at<float>(base, i)); },
     [](void* base, int64_t i, double v) { put(base, i, static_cast<float>(v)); }},
    small_float<DType::f16, uint16_t>(),
    small_float<DType::bf16, uint16_t>(),
    small_float<DType::f8e4m3, uint8_t>(),
    small_float<DType::f8e5m2, uint8_t>(),
    integer<int8_t>(),
    integer<uint8_t>(),
    integer<int32_t>(),
}};

const ElementRow& row(DType t) { return kRows[static_cast<size_t>(t)]; }

}  // namespace

double round_to(DType t, double v) { return row(t).round(v); }

double half_spacing(DType t, double v) {
  if (!info(t).is_float) return 0.5;
  if (v == 0 || !std::isfinite(v)) return 0;
  if (t == DType::f32) return spacing(127, 23, v) / 2;
  const FloatFormat& f = format_of(t).format;
  return spacing(f.bias(), f.mantissa_bits, v) / 2;
}

double load_element(DType t, const void* base, int64_t index) { return row(t).load(base, index); }

void store_element(DType t, void* base, int64_t index, double v) {
  row(t).store(base, index, row(t).round(v));
}

void load_elements(DType t, const void* base, int64_t first, int64_t step, int64_t count, double* out) {
  const auto load = row(t).load;
  for (int64_t i = 0; i < count; ++i) out[i] = load(base, first + i * step);
}

}  // namespace tessera
