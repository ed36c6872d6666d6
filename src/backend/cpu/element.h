// Single elements of floating types, for code that is not worth vectors. g++ 11 knows no type for f16 in C++.
#pragma once

#include "tessera/dtype.h"

namespace tessera {

// The element of any floating type at `from`, exactly.
float read_float(const char* from, DType t);

// `v` rounded to f32, f16 or bf16: to nearest, ties to even; what overflows becomes infinite.
void write_float(char* to, DType t, float v);

}  // namespace tessera
