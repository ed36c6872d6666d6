// How much memory there is to be had.
#pragma once

#include <cstdint>

namespace tessera {

// Bytes that could be taken now before the system ends some program for want of memory, swap included; more
// than any program has where the system does not say.
int64_t available_memory();

}  // namespace tessera
