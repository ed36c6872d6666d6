// What verbs that measure in child processes share on their command lines.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "base/progress.h"
#include "cli/invocation.h"
#include "tune/sweep_run.h"

namespace tessera::cli {

// Options of a run by --jobs, --limit-s, --group, --budget-ms, --budget, --cold, --repeat, --shard, --cores
// and --cache-dir.
SweepOptions sweep_options(const Invocation& call);

// What --stage takes.
inline constexpr std::string_view kSweepStages[] = {"compile", "measure", "all"};

// --candidates, checked: UsageError for an unknown way to choose them.
std::string candidates_word(const Invocation& call, const std::string& otherwise);

// Shows a sweep's stages on stderr, unless --quiet.
class SweepBars {
 public:
  explicit SweepBars(const Invocation& call) : quiet_(call.has("--quiet")) {}
  void operator()(const SweepProgress& p);

 private:
  bool quiet_;
  std::string stage_;
  std::unique_ptr<Progress> bar_;
};

}  // namespace tessera::cli
