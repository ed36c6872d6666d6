// Messages for people, on stderr. TESSERA_LOG=quiet|warn|info|debug; warn when unset.
#pragma once

#include <functional>
#include <string_view>

namespace tessera {

enum class LogLevel : int { quiet, warn, info, debug };

LogLevel log_level();

// One whole line per call, so that lines of several threads do not mix. A warning names what to do about it.
void log(LogLevel level, std::string_view text);

// Where lines go instead of stderr; an empty function: stderr again. Called by one thread at a time.
// It may set another; what it logs itself goes to stderr.
using LogSink = std::function<void(LogLevel, std::string_view text)>;
void set_log_sink(LogSink sink);

// At most once per `key` in this process. True when it was the first time.
bool warn_once(std::string_view key, std::string_view text);

}  // namespace tessera
