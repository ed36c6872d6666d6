// The text of a kernel header with its #include "..." lines replaced by what they name.
#pragma once

#include <string_view>

namespace tessera {

struct Closure {
  std::string_view text;
  std::string_view hash;  // of the text
};

// `header`: a path below kernels/, "cpu/packed.h". Every file appears once, where it is first included; #line
// directives keep compiler messages pointing at the real files. Includes are looked up in kernels/ and beside
// the including file;
// <...> stays as it is. The views live as long as the process. Error(internal) names a missing file.
Closure include_closure(std::string_view header);

}  // namespace tessera
