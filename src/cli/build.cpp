#include <memory>

#include "base/interrupt.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/problems.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    {"--jobs", "N", "compilers at once; 0 = all cores"},
    many({"--suite", "CSV", "the problems of a suite; may be repeated", Complete::suite}),
    {"--name", "GLOB", "only these rows of the suites"},
    {"--dtype", "T", "element types instead of the suites'", Complete::dtype},
};

int run(const Invocation& call) {
  const std::vector<SuiteRow> rows = problems_of(call);
  std::vector<Problem> problems;
  problems.reserve(rows.size());
  for (const SuiteRow& row : rows) problems.push_back(row.problem);
  Dispatcher dispatcher(call.dispatcher_options());
  std::vector<std::string> errors;
  {
    std::unique_ptr<Progress> progress;
    if (!call.has("--quiet")) progress = std::make_unique<Progress>("building", problems.size());
    errors = dispatcher.build(problems, static_cast<int>(call.integer("--jobs", 0, 0, Invocation::kMostJobs)),
                              [&](size_t done, size_t, const std::string& what) {
                                if (progress) progress->update(done, what);
                              });
  }
  throw_if_interrupted();
  size_t failed = 0;
  Json failures = Json::array();
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i].empty()) continue;
    ++failed;
    const std::string text = to_string(problems[i]);
    failures.push(Json::object({{"problem", text}, {"error", errors[i]}}));
    std::fprintf(stderr, "error: %s\nreproduce: %s\n", errors[i].c_str(),
                 call.reproduce("build", problems[i]).c_str());
  }
  const std::string dir = dispatcher.describe().at("cache_dir").as_string();
  if (call.json()) {
    print_json(Json::object({{"problems", static_cast<int64_t>(rows.size())},
                             {"built", static_cast<int64_t>(rows.size() - failed)},
                             {"failed", std::move(failures)},
                             {"cache_dir", dir}}));
  } else {
    print(std::to_string(rows.size() - failed) + " of " + std::to_string(rows.size()) +
          " problems built into " + dir);
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
