#include "runtime/generate.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "backend/cpu/compile.h"
#include "base/fs.h"
#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/text.h"
#include "codegen/render.h"
#include "core/family.h"
#include "core/json_values.h"
#include "runtime/kernel_set.h"
#include "space/rules.h"
#include "space/space.h"
#include "tessera/error.h"
#include "tessera/json.h"
#include "tessera/registry.h"

namespace tessera {
namespace {

constexpr int kManifestVersion = 1;
constexpr std::string_view kSizes = "m=1024 n=1024 k=1024";
constexpr size_t kMaxListed = 10;  // reasons in one error text

constexpr std::string_view kNone[] = {"none"};
constexpr std::string_view kMultiD[] = {"add", "mul", "add,add", "mul,add", "add,relu", "add,gelu"};
constexpr GenerateVariant kVariants[] = {
    {"standard", false, kNone, "operands as the caller stores them"},
    {"preshuffle", true, kNone, "B packed once in the kernel's own order"},
    {"multi_d", false, kMultiD, "element-wise D tensors fused into the epilogue"},
};

struct Row {
  KernelConfig config;
  Problem problem;
  std::string symbol;
};

struct Plan {
  const ArchSpec& arch;
  std::vector<Row> rows;
  std::vector<std::string> refused;  // reasons, one line each
};

const GenerateVariant& find_variant(std::string_view name) {
  std::vector<std::string> names;
  for (const GenerateVariant& v : kVariants) {
    if (v.name == name) return v;
    names.emplace_back(v.name);
  }
  throw Error(ErrorCode::bad_input, "unknown variant '" + std::string(name) + "'",
              "the variants are " + join(names, " "));
}

std::string refusal_text(const GemmView& view, const Row& row, const ArchSpec& arch, const Rule& rule) {
  std::string text = to_string(row.config) + " for " + to_string(row.problem) + ": rule " +
                     std::string(rule.name) + ": " + std::string(rule.reason);
  const Suggestion near = suggest(view, row.config, arch);
  return near.config.empty() ? text : text + " (nearest legal: " + to_string(near.config[0]) + ")";
}

// The kernels of one problem: declared exactly (each must be legal), then legal ones that a pattern allows.
void plan_problem(const Problem& problem, const Registry& wanted, Plan& plan) {
  const GemmView view = lower(problem);
  const size_t first = plan.rows.size();
  size_t exact = first;  // rows of this problem that are declared exactly end here
  const auto planned = [&](const KernelConfig& c) {
    return std::any_of(plan.rows.begin() + static_cast<std::ptrdiff_t>(first),
                       plan.rows.begin() + static_cast<std::ptrdiff_t>(exact),
                       [&](const Row& r) { return r.config == c; });
  };
  for (const KernelConfig& c : wanted.exact_configs(problem, plan.arch.name)) {
    Row row{c, problem, {}};
    if (const Rule* rule = rejected_by(view, c, plan.arch)) {
      plan.refused.push_back(refusal_text(view, row, plan.arch, *rule));
    } else if (!planned(c)) {  // not declared twice
      plan.rows.push_back(std::move(row));
      exact = plan.rows.size();
    }
  }
  const std::vector<KernelDecl> decls = wanted.all();
  if (std::all_of(decls.begin(), decls.end(), [](const KernelDecl& d) { return d.exact; })) return;
  for (const KernelConfig& c : legal_configs(view, plan.arch)) {
    int priority = 0;
    if (!wanted.find(problem, plan.arch.name, c, &priority)) continue;
    if (!planned(c)) plan.rows.push_back({c, problem, {}});
  }
}

Json manifest_row(const Row& row, const Source& source) {
  const GemmView view = lower(row.problem);
  return Json::object({{"config", to_string(row.config)},
                       {"symbol", source.symbol},
                       {"file", source.symbol + ".cpp"},
                       {"flags", write_strings(source.flags)},
                       {"dtype", types_text(row.problem)},
                       {"out", to_string(row.problem.out)},
                       {"d", to_string(row.problem.d)},
                       {"acc", to_string(view.acc)},
                       {"layout", to_string(row.problem.layout)},
                       {"epilogue", to_string(row.problem.epilogue)}});
}

std::string header_text(const std::map<std::string, size_t>& symbols) {
  std::string text =
      "// The kernels of manifest.json. Each takes the argument struct of its family.\n#pragma once\n\n";
  for (const auto& [symbol, row] : symbols) text += "extern \"C\" void " + symbol + "(const void* args);\n";
  text += "\nstruct TesseraKernel {\n  const char* symbol;\n  void (*run)(const void* args);\n};\n\n";
  text += "inline constexpr TesseraKernel kTesseraKernels[] = {\n";
  for (const auto& [symbol, row] : symbols) text += "    {\"" + symbol + "\", &" + symbol + "},\n";
  return text + "};\n";
}

std::string registry_text(const Plan& plan) {
  Registry registry("generated");
  for (const Row& row : plan.rows) {
    KernelDecl decl{.config = to_string(row.config), .exact = true, .dtype = types_text(row.problem)};
    decl.layout = std::string(to_string(row.problem.layout));
    decl.arch = plan.arch.name;
    registry.add(decl);
  }
  return registry.to_json().dump(1) + '\n';
}

// For other people to read, unlike a cache.
void write_shared(const std::string& path, std::string_view text) {
  write_file(path, text);
  chmod(path.c_str(), 0644);
}

// Each word once, in the order given.
std::vector<std::string> distinct(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    if (std::find(out.begin(), out.end(), word) == out.end()) out.push_back(word);
  }
  return out;
}

// Of these declarations, those that are for the architecture and for some of the problems, but of which no
// kernel was planned.
std::vector<std::string> without_kernels(const Registry& wanted, const std::vector<Problem>& problems,
                                         const Plan& plan) {
  std::vector<std::string> out;
  for (const KernelDecl& decl : wanted.all()) {
    Registry one;
    one.add(decl);
    const bool planned = std::any_of(plan.rows.begin(), plan.rows.end(), [&](const Row& row) {
      int priority = 0;
      return one.find(row.problem, plan.arch.name, row.config, &priority);
    });
    const bool meant = std::any_of(problems.begin(), problems.end(), [&](const Problem& problem) {
      return one.applies(problem, plan.arch.name);
    });
    if (meant && !planned) out.push_back((decl.exact ? "exact " : "any ") + decl.config);
  }
  return out;
}

// "N WHAT:" and the first of the lines.
std::string listed(const std::vector<std::string>& lines, const std::string& what) {
  std::string text = std::to_string(lines.size()) + ' ' + what + ':';
  for (size_t i = 0; i < std::min(lines.size(), kMaxListed); ++i) text += "\n  " + lines[i];
  return text;
}

std::shared_ptr<const Registry> wanted_kernels(const GenerateOptions& o, const KernelSet* set) {
  if (set) return set->kernels;
  if (o.config_file.empty()) return Registry::parse("any *", "everything");
  return Registry::parse(read_file(o.config_file), o.config_file);
}

Plan make_plan(const GenerateOptions& o) {
  Plan plan{find_arch(o.arch), {}, {}};
  const GenerateVariant& variant = find_variant(o.variant);
  if (!o.set.empty() && !o.config_file.empty()) {
    throw Error(ErrorCode::bad_input, "a preselected set and a config file at once", "give one of them");
  }
  const KernelSet* set = o.set.empty() ? nullptr : &find_kernel_set(o.set);
  if (set && set->variant != variant.name) {
    throw Error(ErrorCode::bad_input,
                "kernel set '" + set->name + "' is of variant " + set->variant + ", not " + o.variant);
  }
  if (o.dtypes.empty() || o.layouts.empty()) {
    throw Error(ErrorCode::bad_input, "no element type or no layout to generate for",
                "for example f32 and rcr");
  }
  const auto wanted = wanted_kernels(o, set);
  std::vector<std::string> epilogues(variant.epilogues.begin(), variant.epilogues.end());
  if (set) epilogues = set->epilogues;
  std::vector<Problem> problems;
  std::vector<std::string> bare;  // of which there is no kernel
  for (const std::string& dtype : distinct(o.dtypes)) {
    for (const std::string& layout : distinct(o.layouts)) {
      for (const std::string& epilogue : epilogues) {
        const Problem problem = Problem::parse(
            "gemm " + (set ? set->sizes : std::string(kSizes)) + " dtype=" + dtype + " layout=" + layout +
            (epilogue == "none" ? "" : " epilogue=" + epilogue) + (variant.prepack_b ? " prepack=b" : ""));
        const size_t before = plan.rows.size() + plan.refused.size();
        plan_problem(problem, *wanted, plan);
        if (plan.rows.size() + plan.refused.size() == before)
          bare.push_back(dtype + ' ' + layout + (epilogue == "none" ? "" : " with " + epilogue));
        problems.push_back(problem);
      }
    }
  }
  const std::string nothing = plan.arch.name + ", so nothing was generated";
  if (!plan.refused.empty())
    throw Error(ErrorCode::bad_input, listed(plan.refused, "declared kernel(s) cannot run on " + nothing));
  if (!bare.empty())
    throw Error(ErrorCode::bad_input,
                listed(bare, "of the " + std::to_string(problems.size()) +
                                 " combinations asked for have no kernel of " +
                                 (set ? "set '" + set->name + "'" : "the declared ones") + " on " + nothing),
                "ask for those that have, or declare kernels for these");
  if (!o.config_file.empty()) {
    const auto idle = without_kernels(*wanted, problems, plan);
    if (!idle.empty())
      throw Error(ErrorCode::bad_input, listed(idle, "declaration(s) match no legal kernel of " + nothing),
                  "correct them, or say what they are for: arch=, dtype=, layout=");
  }
  return plan;
}

}  // namespace

std::span<const GenerateVariant> generate_variants() { return kVariants; }

GenerateResult generate(const GenerateOptions& options,
                        const std::function<void(size_t, size_t, const std::string&)>& progress) {
  if (options.out.empty()) throw Error(ErrorCode::bad_input, "no directory to write to");
  Plan plan = make_plan(options);

  std::string out = options.out;
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  const std::string parent =
      out.find('/') == out.npos ? "." : out.substr(0, std::max<size_t>(out.find_last_of('/'), 1));
  make_directories(parent);
  if (!list_directory(out).empty()) {
    throw Error(ErrorCode::bad_input, "directory '" + out + "' is not empty", "name a new one");
  }
  TempDir temp(parent);

  std::mutex mutex;
  std::map<std::string, size_t> symbols;  // to the row that wrote the file
  std::vector<Json> rows(plan.rows.size());
  size_t done = 0;
  in_parallel(plan.rows.size(), options.jobs, [&](size_t i) {
    throw_if_interrupted();
    Row& row = plan.rows[i];
    const Source source = render(lower(row.problem), row.config, plan.arch);
    rows[i] = manifest_row(row, source);
    bool first;
    {
      std::lock_guard lock(mutex);
      first = symbols.emplace(source.symbol, i).second;
    }
    if (first) write_shared(temp.path() + '/' + source.symbol + ".cpp", source.unit);
    std::lock_guard lock(mutex);
    ++done;
    if (progress) progress(done, plan.rows.size(), source.symbol);
  });

  std::vector<std::string> flags;
  if (plan.arch.backend == BackendKind::cpu) flags = cpp_code_flags();
  flags.insert(flags.end(), plan.arch.compile_flags.begin(), plan.arch.compile_flags.end());
  Json kernels = Json::array();
  for (Json& row : rows) kernels.push(std::move(row));
  const Json manifest = Json::object({{"version", kManifestVersion},
                                      {"abi", kKernelAbi},
                                      {"arch", plan.arch.name},
                                      {"variant", options.variant},
                                      {"set", options.set},
                                      {"compile_flags", write_strings(flags)},
                                      {"kernels", kernels}});
  write_shared(temp.path() + "/manifest.json", manifest.dump(1) + '\n');
  write_shared(temp.path() + "/kernels.h", header_text(symbols));
  write_shared(temp.path() + "/registry.json", registry_text(plan));
  chmod(temp.path().c_str(), 0755);
  if (!temp.rename_to(out)) {
    throw Error(ErrorCode::bad_input, "directory '" + out + "' is not empty", "name a new one");
  }
  return {static_cast<int64_t>(rows.size()), static_cast<int64_t>(symbols.size()), out + "/manifest.json"};
}

}  // namespace tessera
