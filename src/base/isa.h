// What the processor has of the instruction sets that files of ours are compiled for (cmake/isa_flags.cmake).
#pragma once

namespace tessera {

bool has_avx512();  // all that files named *_avx512.cpp may use

}  // namespace tessera
