// Messages for people, on stderr. TESSERA_LOG=quiet|warn|info|debug; warn when unset.
#pragma once

#include <string_view>

namespace tessera {

enum class LogLevel : int { quiet, warn, info, debug };

LogLevel log_level();

// One whole line per call, so that lines of several threads do not mix. A warning names what to do about it.
void log(LogLevel level, std::string_view text);

// At most once per `key` in this process. True when it was the first time.
bool warn_once(std::string_view key, std::string_view text);

}  // namespace tessera
