// The CPU backend: generated units compiled by the system compiler, drivers and packing compiled ahead of
// time.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace tessera {

// threads 0 = all cores this process may use.
std::unique_ptr<Backend> make_cpu_backend(int threads);

}  // namespace tessera
