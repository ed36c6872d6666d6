// The measurements that a command line names, for verbs that learn from them or judge by them.
#pragma once

#include <string>

#include "cli/invocation.h"
#include "tune/training_data.h"

namespace tessera::cli {

// Of --data FILE, else of the database: of --operation and --units on `arch`.
TrainingData measured(const Invocation& call, const std::string& arch);

}  // namespace tessera::cli
