// Values of enumerations that a problem put together by hand may have.
#pragma once

#include <string>

#include "tessera/problem.h"

namespace tessera {

// "layout is 77, which is none": the first member whose value has no name, or whose steps are no chain. ""
// for a problem that can be printed.
std::string unknown_word(const Problem& p);

}  // namespace tessera
