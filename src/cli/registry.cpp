#include "tessera/registry.h"
#include "base/fs.h"
#include "base/text.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "tessera/error.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    {"--arch", "ARCH", "keep the declarations that apply to this architecture", Complete::arch},
    of("merge", {"--out", "FILE", "write the JSON there instead of to stdout", Complete::file}),
};

// All files merged, in order, and filtered.
std::shared_ptr<Registry> load(const Invocation& call) {
  if (call.words.empty()) throw UsageError("the kernel-set file is missing");
  std::shared_ptr<Registry> registry;
  for (const std::string& path : call.words) {
    const auto read = Registry::parse(read_file(path), path);
    if (!registry) registry = call.words.size() == 1 ? read : std::make_shared<Registry>("merged");
    registry->merge(*read);
  }
  if (call.has("--arch")) registry->filter_by_arch(call.value("--arch"));
  return registry;
}

int list(const Invocation& call) {
  const auto registry = load(call);
  if (call.json()) {
    print_json(registry->to_json());
    return kOk;
  }
  Table table({"kind", "config", "dtype", "layout", "arch", "priority"});
  for (const KernelDecl& d : registry->all()) {
    table.add({d.exact ? "exact" : "any", d.config, d.dtype, d.layout, d.arch, std::to_string(d.priority)});
  }
  print(table.text());
  return kOk;
}

// How many there are; Error where they are none, or not valid.
int64_t checked_declarations(const Invocation& call) {
  const auto registry = load(call);
  if (registry->size() == 0) {
    throw Error(ErrorCode::bad_input,
                join(call.words, " ") + " declares no kernel" +
                    (call.has("--arch") ? " for " + call.value("--arch") : ""),
                "with it nothing could be chosen; a line reads 'any PATTERN' or 'exact CONFIG'");
  }
  const auto again = Registry::from_json(registry->to_json());
  if (again->all() != registry->all()) {
    throw Error(ErrorCode::internal, "the declarations change when written as JSON and read back");
  }
  return static_cast<int64_t>(registry->size());
}

int check(const Invocation& call) {
  int64_t kernels = 0;
  try {
    kernels = checked_declarations(call);
  } catch (const Error& e) {
    if (call.json()) print_json(Json::object({{"valid", false}, {"error", e.what()}}));
    throw;
  }
  if (call.json()) {
    print_json(Json::object({{"valid", true}, {"kernels", kernels}}));
  } else {
    print("valid, " + std::to_string(kernels) + " declaration(s)");
  }
  return kOk;
}

int merge(const Invocation& call) {
  const std::string out = call.output("--out");
  const auto registry = load(call);
  const Json json = registry->to_json();
  if (out.empty()) {
    print_json(json);
    return kOk;
  }
  write_file_whole(out, json.dump(2) + "\n");
  if (call.json())
    print_json(Json::object({{"file", out}, {"kernels", static_cast<int64_t>(registry->size())}}));
  return kOk;
}

constexpr Action kActions[] = {
    {"list", "FILE...", "the declarations of kernel-set files", list},
    {"check", "FILE...", "whether they are valid", check},
    {"merge", "FILE...", "one registry from several, as JSON", merge},
};

}  // namespace

const Command registry_command{
    .name = "registry",
    .words = "FILE...",
    .summary = "files that declare which kernels may be chosen: list, check, merge",
    .options = kOptions,
    .run = nullptr,
    .actions = kActions,
    .complete = Complete::file};

}  // namespace tessera::cli
