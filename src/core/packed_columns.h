// The form of a packed B for kernels that read single columns of it: elements as they are in memory, column
// after column, each along k.
#pragma once

#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Whether the kernel reads a packed B so, and not in panels: it runs along k, or broadcasts what B holds.
bool packs_columns(const KernelConfig& c);

// Elements from one column to the next. Long columns begin with a line of memory, so that vectors meet one
// line each, and not a page or a simple part of one after another, where they would compete for few sets of a
// cache.
int64_t column_pitch(const GemmView& v);

// The view with such a B in the place of its own: what the kernel sees is a B that nobody packed.
GemmView with_packed_columns(const GemmView& v);

}  // namespace tessera
