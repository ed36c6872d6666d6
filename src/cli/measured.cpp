#include "cli/measured.h"

#include "base/fs.h"
#include "tune/training_file.h"

namespace tessera::cli {

TrainingData measured(const Invocation& call, const std::string& arch) {
  if (call.has("--data")) return parse_training_data(read_file(call.value("--data")), call.value("--data"));
  if (call.database().empty())
    throw UsageError("no measurements; name a database with --db, or a file with --data");
  return training_data(Database(call.database(), Database::Mode::read), arch,
                       call.value("--operation", "gemm"), static_cast<int>(call.integer("--units", 0)));
}

}  // namespace tessera::cli
