#include "backend/compile_log.h"

#include "base/fs.h"
#include "base/log.h"
#include "tessera/error.h"

namespace tessera {

std::string keep_compile_log(const Source& source, const std::string& scratch, const std::string& said) {
  try {
    const std::string path = (scratch.empty() ? temp_directory() : scratch) + '/' + source.symbol + ".log";
    replace_file(path, said + "\n---- the unit ----\n" + source.unit);
    return path;
  } catch (const Error& e) {
    log(LogLevel::info, e.what());
    return {};
  }
}

std::string where_log_is(const std::string& path) {
  return path.empty() ? "the log could not be written" : "see " + path;
}

}  // namespace tessera
