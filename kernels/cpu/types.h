// The instructions of x86 that the prelude of a generated unit names, as in arch/.
#pragma once

#include "common/types.h"

namespace tsr {

enum class Inst : int { fma, dpbf16, vnni, madd16, amx };

}  // namespace tsr
