#include "backend/cpu/edge_columns_lines.h"

namespace tessera {

void edge_dot_avx2(const EdgeColumns& e) { EdgeLines<8>::run(e); }

}  // namespace tessera
