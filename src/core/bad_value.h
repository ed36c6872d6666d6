// The error of a value, a word or a field that its giver has to mend.
#pragma once

#include <string>

#include "tessera/error.h"

namespace tessera {

[[noreturn]] inline void bad_value(const std::string& why, const std::string& remedy = {}) {
  throw Error(ErrorCode::bad_input, why, remedy);
}

}  // namespace tessera
