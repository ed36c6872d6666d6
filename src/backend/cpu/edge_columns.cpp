#include "backend/cpu/edge_columns.h"

namespace tessera {

EdgeDot edge_dot(int vector_bits) { return vector_bits >= 512 ? edge_dot_avx512 : edge_dot_avx2; }

}  // namespace tessera
