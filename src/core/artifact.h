// Source and Binary: generated text and compiled code object. What codegen hands to a backend and to the
// cache.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/family.h"

namespace tessera {

// Version of the agreement between generated units and the drivers that call them. It is part of every cache
// key: raise it when the argument structs in kernels/ change.
inline constexpr int kKernelAbi = 24;

struct Source {
  BackendKind backend = BackendKind::cpu;
  std::string arch;    // name of the ArchSpec
  std::string symbol;  // tsr_<family>_<hash of the unit>
  std::string text;    // prelude with named values, one include, one extern "C" entry
  std::string unit;    // the same with the include closure in place: what is compiled, no other file needed
  std::vector<std::string> flags;  // compiler flags of the architecture
};

struct Binary {
  std::string symbol;
  std::string bytes;  // shared object, cubin or code object
};

}  // namespace tessera
