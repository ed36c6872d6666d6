#include "tessera/dtype.h"

#include <array>

namespace tessera {
namespace {

using enum DType;
// The f8 types are the OCP ones: e4m3 has no infinities, e5m2 is IEEE-like.
constexpr std::array<DTypeInfo, kDTypeCount> kTypes = {{
    {"f32", "fp32", 4, true, true, f32, f32},
    {"f16", "fp16", 2, true, true, f32, f16},
    {"bf16", "bf16", 2, true, true, f32, bf16},
    {"f8e4m3", "fp8", 1, true, true, f32, f16},
    {"f8e5m2", "bf8", 1, true, true, f32, f16},
    {"i8", "int8", 1, false, true, i32, i32},
    {"u8", "uint8", 1, false, true, i32, i32},
    {"i32", "int32", 4, false, false, i32, i32},
}};

}  // namespace

const DTypeInfo& info(DType t) { return kTypes[static_cast<size_t>(t)]; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (text == kTypes[i].name || text == kTypes[i].alias) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::string dtype_names() {
  std::string names;
  for (const DTypeInfo& row : kTypes) names += (names.empty() ? "" : " ") + std::string(row.name);
  return names;
}

}  // namespace tessera
