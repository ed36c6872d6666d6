#include "runtime/pack.h"

#include <memory>

#include "backend/backend.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/problems.h"
#include "core/json_values.h"
#include "runtime/pack_kernels.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    of("create", {"--out", "FILE", "the pack to write", Complete::file}),
    of("create", many({"--suite", "CSV", "the problems of a suite; may be repeated", Complete::suite})),
    of("create", {"--name", "GLOB", "only these rows of the suites"}),
    of("create", many({"--dtype", "T,...", "these element types instead of the suites'", Complete::dtype})),
    of("create", {"--prepack", "", "for packed B too"}),
    of("create", {"--jobs", "N", "compilers at once; 0 = all cores"}),
    of("create", many({"--thread-counts", "N,...", "what is chosen with each of these numbers of threads"})),
    of("create", {"--kernels-only", "", "leave the decisions out"}),
    of("create",
       {"--cover", "PERCENT", "only the most chosen kernels, enough for this share of the choices"}),
    of("create", {"--add", "", "keep what FILE holds already"}),
};

// problems_of, once per element type of --dtype, and again for packed B.
std::vector<Problem> wanted(const Invocation& call) {
  std::vector<std::string> dtypes = call.list("--dtype");
  if (dtypes.empty()) dtypes.emplace_back();
  std::vector<Problem> out;
  for (const std::string& dtype : dtypes) {
    Invocation one = call;
    one.values.erase("--dtype");
    if (!dtype.empty()) one.values["--dtype"] = {dtype};
    for (const SuiteRow& row : problems_of(one)) {
      out.push_back(row.problem);
      if (!call.has("--prepack")) continue;
      out.push_back(row.problem);
      out.back().prepack_b = true;
      out.back().validate();
    }
  }
  return out;
}

// Thread counts that the kernels are chosen for.
std::vector<int> thread_counts(const Invocation& call) {
  std::vector<int> out;
  for (const std::string& text : call.list("--thread-counts")) {
    const auto count = parse_int(text);
    if (!count || *count < 1 || *count > kMostThreads) {
      throw UsageError("--thread-counts takes numbers from 1 to " + std::to_string(kMostThreads) + ", not '" +
                       text + "'");
    }
    out.push_back(static_cast<int>(*count));
  }
  return out;
}

double share(const Invocation& call) {
  return static_cast<double>(call.integer("--cover", 100, 1, 100)) / 100;
}

int create(const Invocation& call) {
  if (!call.has("--out")) throw UsageError("--out FILE is missing");
  const std::vector<Problem> problems = wanted(call);
  const PackKernelsOptions options{
      .dispatcher = call.dispatcher_options(),
      .thread_counts = thread_counts(call),
      .share = share(call),
      .jobs = static_cast<int>(call.integer("--jobs", 0, 0, Invocation::kMostJobs)),
      .decisions = !call.has("--kernels-only")};
  const std::string path = call.output("--out");
  PackWriter writer;
  if (call.has("--add")) {
    if (!path_exists(path))
      throw Error(ErrorCode::io, "there is no pack '" + path + "' to add to", "leave out --add to create it");
    writer.add(*Pack::open(path));
  }
  std::unique_ptr<Progress> progress;
  if (!call.has("--quiet")) progress = std::make_unique<Progress>("building", problems.size());
  add_kernels(writer, problems, options, [&](size_t done, size_t total, const std::string& what) {
    if (progress) progress->update(done, total, what);
  });
  progress.reset();
  writer.write(path);
  const auto pack = Pack::open(path);
  if (call.json()) {
    print_json(pack->describe());
  } else {
    print(path + ": " + std::to_string(pack->size()) + " kernels for " + std::to_string(problems.size()) +
          " problems, " + bytes_text(static_cast<double>(pack->describe().at("bytes").as_int())));
  }
  return kOk;
}

int list(const Invocation& call) {
  if (call.words.empty()) throw UsageError("the pack is missing");
  Json all = Json::array();
  for (const std::string& path : call.words) {
    const auto pack = Pack::open(path);
    Json about = pack->describe();
    Json decided = Json::array();
    Table table({"arch", "units", "problem", "config"});
    for (const PackDecision& d : pack->decisions()) {
      decided.push(to_json(d));
      table.add({d.arch, std::to_string(d.units), d.problem, d.config});
    }
    if (call.json()) {
      all.push(std::move(about.set("decided", std::move(decided))));
      continue;
    }
    print(path + ": " + std::to_string(pack->size()) + " kernels for " + about.at("archs").dump() + ", " +
          bytes_text(static_cast<double>(about.at("bytes").as_int())));
    if (!table.empty()) print(table.text());
  }
  if (call.json()) print_json(all);
  return kOk;
}

int check(const Invocation& call) {
  if (call.words.empty()) throw UsageError("the pack is missing");
  Json all = Json::array();
  bool good = true;
  for (const std::string& path : call.words) {
    const std::string again = "tessera pack check " + shell_quote(path);
    try {
      const auto pack = Pack::open(path);
      Json row = pack->check();
      if (const Json& damaged = row.at("damaged"); damaged.size() > 0) {
        good = false;
        say_failed(path + ": damaged: " + join(read_strings(damaged), " ") + "; build or copy it anew",
                   again);
      } else if (!call.json()) {
        print(path + ": good" +
              (pack->of_this_build() ? "" : ", " + std::string(kOfAnotherBuild) + "; create it again"));
      }
      all.push(std::move(row));
    } catch (const Error& e) {
      good = false;
      all.push(Json::object({{"path", path}, {"error", e.what()}}));
      say_failed(e.what(), again);
    }
  }
  if (call.json()) print_json(all);
  return good ? kOk : kFailed;
}

constexpr Action kActions[] = {
    {"create", "FILE|PROBLEM... --out FILE", "build the problems' kernels into one file", create,
     kDispatcher},
    {"list", "FILE...", "what a pack holds", list},
    {"check", "FILE...", "every kernel against its checksum", check},
};

}  // namespace

const Command pack_command{.name = "pack",
                           .words = "FILE...",
                           .summary = "prebuilt kernels for machines without a compiler: create, list, check",
                           .options = kOptions,
                           .run = nullptr,
                           .actions = kActions,
                           .complete = Complete::file};

}  // namespace tessera::cli
