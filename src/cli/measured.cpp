#include "cli/measured.h"

#include "base/fs.h"
#include "tune/training_file.h"

namespace tessera::cli {

TrainingData measured(const Invocation& call, const std::string& arch) {
  if (call.has("--data")) {
    const std::string file = call.value("--data");
    if (call.has("--db")) throw UsageError("--data and --db: the measurements come from one of them");
    TrainingData data = parse_training_data(read_file(file), file);
    const auto check = [&](const char* option, const std::string& value) {
      if (call.has(option) && call.value(option) != value)
        throw UsageError(std::string(option) + ' ' + call.value(option) + ": " + file + " is of " + value);
    };
    check("--operation", data.operation);
    check("--arch", data.arch.name);
    if (call.integer("--units", 0) != 0) check("--units", std::to_string(data.arch.compute_units));
    return data;
  }
  if (call.database().empty())
    throw UsageError("no measurements; name a database with --db, or a file with --data");
  return training_data(Database(call.database(), Database::Mode::read), arch,
                       call.value("--operation", "gemm"), static_cast<int>(call.integer("--units", 0)));
}

}  // namespace tessera::cli
