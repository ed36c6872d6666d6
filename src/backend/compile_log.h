// What a compiler said of a unit that it refused, kept where its user can read it.
#pragma once

#include <string>

#include "core/artifact.h"

namespace tessera {

// Writes `said` and the unit to SYMBOL.log in `scratch` ("" = the system's folder for temporary files), in
// the place of what is there. Returns the path, "" where it cannot be written: the error text has the gist.
std::string keep_compile_log(const Source& source, const std::string& scratch, const std::string& said);

// "see PATH" or that there is no log.
std::string where_log_is(const std::string& path);

}  // namespace tessera
