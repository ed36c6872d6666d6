#include "backend/cpu/edge_columns_lines.h"

namespace tessera {

void edge_dot_avx512(const EdgeColumns& e) { EdgeLines<16>::run(e); }

}  // namespace tessera
