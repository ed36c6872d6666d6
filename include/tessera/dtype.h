// Element types. One row per type in dtype.cpp is all the host side knows; kernels add the conversion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

enum class DType : uint8_t { f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32 };
inline constexpr int kDTypeCount = 8;

struct DTypeInfo {
  std::string_view name;
  std::string_view alias;  // a second accepted spelling, may equal name
  int bytes;
  bool is_float;
  bool operand;       // may be A or B of a GEMM
  DType accumulator;  // of a product of two such operands
  DType default_out;  // when a problem does not say
};

const DTypeInfo& info(DType t);
inline std::string_view to_string(DType t) { return info(t).name; }
inline int bytes_of(DType t) { return info(t).bytes; }

std::optional<DType> parse_dtype(std::string_view text);
std::string dtype_names();  // "f32 f16 ...": for error texts

}  // namespace tessera
