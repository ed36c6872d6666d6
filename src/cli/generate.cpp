#include "runtime/generate.h"

#include <filesystem>
#include <memory>

#include "base/fs.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "core/arch_spec.h"
#include "runtime/kernel_set.h"
#include "tessera/error.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    {"--arch", "ARCH", "architecture of the kernels (this machine's)", Complete::arch},
    many({"--dtype", "T,...", "element types, as in a problem", Complete::dtype}),
    many({"--layout", "L,...", "layouts (rcr)", Complete::layout}),
    {"--variant", "V", "standard, preshuffle or multi_d", Complete::variant},
    {"--preselected", "SET", "the kernels of a preselected set; 'list' names them", Complete::set},
    {"--config-file", "FILE", "the kernels that a kernel-set file declares", Complete::file},
    {"--out", "DIR", "a directory that is missing or empty", Complete::directory},
    {"--jobs", "N", "files written at once; 0 = all cores"},
};

int list_sets(const Invocation& call) {
  Json rows = Json::array();
  Table table({"set", "variant", "kernels", "meant for", "description"});
  for (const KernelSet& s : kernel_sets()) {
    rows.push(Json::object({{"name", s.name},
                            {"variant", s.variant},
                            {"kernels", static_cast<int64_t>(s.kernels->size())},
                            {"sizes", s.sizes},
                            {"description", s.doc}}));
    table.add({s.name, s.variant, std::to_string(s.kernels->size()), s.sizes, s.doc});
  }
  if (call.json()) {
    print_json(rows);
  } else {
    print(table.text());
  }
  return kOk;
}

// UsageError for words that name nothing.
void check_words(const GenerateOptions& o) {
  try {
    if (!o.set.empty()) find_kernel_set(o.set);
    for (const std::string& dtype : o.dtypes) {
      for (const std::string& layout : o.layouts)
        Problem::parse(format("gemm m=64 n=64 k=64 dtype=%s layout=%s", dtype.c_str(), layout.c_str()));
    }
  } catch (const Error& e) { throw UsageError(e.what()); }
}

int run(const Invocation& call) {
  call.no_more_words(0);
  if (call.value("--preselected") == "list") {
    for (const char* other : {"--out", "--dtype", "--layout", "--variant", "--arch", "--jobs"}) {
      if (call.has(other))
        throw UsageError(std::string("--preselected list and ") + other + " contradict each other");
    }
    return list_sets(call);
  }
  if (!call.has("--out")) throw UsageError("--out DIR is missing");
  GenerateOptions o;
  o.arch = call.value("--arch");
  if (o.arch.starts_with("null:")) o.arch.erase(0, 5);
  if (o.arch.empty()) o.arch = detect_cpu().name;
  o.dtypes = call.list("--dtype");
  o.layouts = call.list("--layout");
  if (o.dtypes.empty()) throw UsageError("--dtype T is missing");
  if (o.layouts.empty()) o.layouts = {"rcr"};
  o.variant = call.one_of("--variant", "standard", generate_variants());
  o.set = call.value("--preselected");
  o.config_file = call.value("--config-file");
  o.out = call.value("--out");
  if (o.out == "-") throw UsageError("--out names a directory");
  o.jobs = static_cast<int>(call.integer("--jobs", 0, 0, Invocation::kMostJobs));
  check_words(o);
  if (path_exists(o.out) && !std::filesystem::is_directory(o.out)) {
    throw Error(ErrorCode::io, "cannot write to '" + o.out + "': it is a file",
                "name a directory that is missing or empty");
  }
  GenerateResult result;
  {
    std::unique_ptr<Progress> progress;
    if (!call.has("--quiet")) progress = std::make_unique<Progress>("generating", 1);
    result = generate(o, [&](size_t done, size_t total, const std::string& what) {
      if (progress) progress->update(done, total, what);
    });
  }
  if (call.json()) {
    print_json(Json::object({{"arch", o.arch},
                             {"variant", o.variant},
                             {"kernels", result.kernels},
                             {"files", result.files},
                             {"manifest", result.manifest}}));
  } else {
    print(std::to_string(result.kernels) + " kernels in " + std::to_string(result.files) +
          " files, listed in " + result.manifest);
  }
  return kOk;
}

}  // namespace

const Command generate_command{.name = "generate",
                               .words = "",
                               .summary = "write a set of kernels as sources with a manifest",
                               .options = kOptions,
                               .run = run};

}  // namespace tessera::cli
