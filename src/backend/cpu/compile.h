// The system's C++ compiler: finding it, naming its version, turning a generated unit into a shared object.
#pragma once

#include <string>
#include <vector>

#include "core/artifact.h"

namespace tessera {

struct CppCompiler {
  std::vector<std::string> command;  // the program and the user's own flags; empty when there is none
  std::string identity;  // version and target, the same wherever the program is installed; "" when none
  std::string file;      // the program's path, size and time; "" when none
  std::string missing;   // why there is none
};

// TESSERA_CXX, else CXX, else g++, clang++, c++ on PATH. TESSERA_CXX that names nothing is an answer
// (`missing`), not a reason to look further. Remembered per process while the environment and the program
// stay as they are, and in the user's cache directory for a day.
CppCompiler find_cpp_compiler();

// For a build of somebody else's: what the code of a unit needs beside the architecture's flags.
std::vector<std::string> cpp_code_flags();

inline constexpr double kCompileTimeoutS = 300;

// `scratch` and errors: see Backend::compile.
Binary compile_cpp(const Source& source, const std::string& scratch, double timeout_s = kCompileTimeoutS);

}  // namespace tessera
