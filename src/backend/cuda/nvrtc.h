// NVIDIA's run-time compiler, found at run time.
#pragma once

#include <string>

#include "core/artifact.h"

namespace tessera::cuda {

// "nvrtc 13.0"; "" when there is none, with the reason in *why.
std::string nvrtc_identity(std::string* why = nullptr);

// To a cubin for source.arch. *log: what the compiler and the assembler said (registers, spills). Errors: see
// Backend::compile.
Binary compile_nvrtc(const Source& source, const std::string& scratch, std::string* log = nullptr);

}  // namespace tessera::cuda
