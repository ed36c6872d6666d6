#include "base/log.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

namespace tessera {
namespace {

constexpr std::array<std::string_view, 4> kLevels = {"quiet", "warn", "info", "debug"};

void write_line(std::string_view level, std::string_view text) {
  std::string line = "tessera: ";
  line += level;
  line += ": ";
  line += text;
  line += '\n';
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // a closed stderr is not our failure
}

// Never destroyed: threads may log while the process ends.
struct Sink {
  std::recursive_mutex mutex;  // a callback may set another one
  LogSink function;
};
Sink& sink() {
  static Sink* const the_sink = new Sink;
  return *the_sink;
}

LogLevel level_from_environment() {
  const char* text = std::getenv("TESSERA_LOG");
  if (!text || !*text) return LogLevel::warn;
  for (size_t i = 0; i < kLevels.size(); ++i) {
    if (kLevels[i] == text) return static_cast<LogLevel>(i);
  }
  write_line("warn",
             "TESSERA_LOG='" + std::string(text) + "' is not one of quiet warn info debug; using warn");
  return LogLevel::warn;
}

}  // namespace

LogLevel log_level() {
  static const LogLevel level = level_from_environment();
  return level;
}

void log(LogLevel level, std::string_view text) {
  if (level == LogLevel::quiet || level > log_level()) return;
  thread_local bool calling = false;
  if (!calling) {
    std::lock_guard lock(sink().mutex);
    if (const LogSink function = sink().function) {
      calling = true;  // what happens in the callback goes to standard error
      try {
        function(level, text);
      } catch (...) {
        calling = false;
        throw;
      }
      calling = false;
      return;
    }
  }
  write_line(kLevels[static_cast<size_t>(level)], text);
}

void set_log_sink(LogSink function) {
  std::lock_guard lock(sink().mutex);
  sink().function = std::move(function);
}

bool warn_once(std::string_view key, std::string_view text) {
  static std::mutex mutex;
  static auto& seen = *new std::set<std::string, std::less<>>;  // for threads while the process ends
  {
    std::lock_guard lock(mutex);
    if (!seen.emplace(key).second) return false;
  }
  log(LogLevel::warn, text);
  return true;
}

}  // namespace tessera
