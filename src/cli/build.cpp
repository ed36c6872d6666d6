#include <memory>
#include <optional>

#include "base/interrupt.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/problems.h"
#include "runtime/kernel_cache.h"
#include "tessera/error.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    {"--jobs", "N", "compilers at once; 0 = all cores"},
    many({"--suite", "CSV", "the problems of a suite; may be repeated", Complete::suite}),
    {"--name", "GLOB", "only these rows of the suites"},
    {"--dtype", "T", "element types instead of the suites'", Complete::dtype},
};

std::optional<Error> cache_error(const std::string& directory, const std::string& why) {
  if (why.empty()) return std::nullopt;
  return Error(ErrorCode::io, "kernels cannot be stored in '" + directory + "': " + why,
               "free space, or choose another directory with --cache-dir or TESSERA_CACHE_DIR");
}

// Builds that cannot be stored have failed: only what a pack or the cache has already is there to stay.
std::vector<std::string> look_up(Dispatcher& dispatcher, const std::vector<Problem>& problems,
                                 const Error& unwritable) {
  std::vector<std::string> errors;
  bool compiled = false;  // that one is enough to know
  for (const Problem& problem : problems) {
    std::string error;
    try {
      BuildInfo info;
      if (!compiled) {
        dispatcher.get(problem, &info);
        compiled = info.from == BuildInfo::From::compiled;
      }
      if (compiled) error = unwritable.what();
    } catch (const std::exception& e) { error = e.what(); }
    errors.push_back(std::move(error));
  }
  return errors;
}

int run(const Invocation& call) {
  const std::vector<SuiteRow> rows = problems_of(call);
  std::vector<Problem> problems;
  problems.reserve(rows.size());
  for (const SuiteRow& row : rows) problems.push_back(row.problem);
  const int jobs = static_cast<int>(call.integer("--jobs", 0, 0, Invocation::kMostJobs));
  const DispatcherOptions options = call.dispatcher_options();
  Dispatcher dispatcher(options);
  KernelCache cache({.directory = options.cache_dir, .packs = {}});
  const auto unwritable = [&] { return cache_error(cache.directory(), cache.why_unwritable()); };
  std::vector<std::string> errors;
  if (const auto why = unwritable()) {
    errors = look_up(dispatcher, problems, *why);
  } else {
    std::unique_ptr<Progress> progress;
    if (!call.has("--quiet")) progress = std::make_unique<Progress>("building", problems.size());
    errors = dispatcher.build(problems, jobs, [&](size_t done, size_t, const std::string& what) {
      if (progress) progress->update(done, what);
    });
    progress.reset();
    throw_if_interrupted();
    if (const auto full = unwritable()) throw Error(*full);
  }
  throw_if_interrupted();
  size_t failed = 0;
  Json failures = Json::array();
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i].empty()) continue;
    ++failed;
    const std::string text = to_string(problems[i]);
    failures.push(Json::object({{"problem", text}, {"error", errors[i]}}));
    say_failed(errors[i], call.reproduce("build", problems[i]));
  }
  const std::string dir = dispatcher.describe().at("cache_dir").as_string();
  if (call.json()) {
    print_json(Json::object({{"problems", static_cast<int64_t>(rows.size())},
                             {"built", static_cast<int64_t>(rows.size() - failed)},
                             {"failed", std::move(failures)},
                             {"cache_dir", dir}}));
  } else {
    print(std::to_string(rows.size() - failed) + " of " + std::to_string(rows.size()) +
          " problems have their kernels in " + dir + " or in a pack");
  }
  return failed ? kFailed : kOk;
}

}  // namespace

const Command build_command{.name = "build",
                            .words = "FILE|PROBLEM...",
                            .summary = "compile what the problems need, in parallel, into the cache",
                            .options = kOptions,
                            .run = run,
                            .uses = kDispatcher,
                            .complete = Complete::file};

}  // namespace tessera::cli
