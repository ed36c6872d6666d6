#include "runtime/kernel_set.h"

#include <algorithm>

#include "base/embedded.h"
#include "base/text.h"
#include "core/arch_spec.h"
#include "core/json_values.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr std::string_view kFolder = "sets/", kSchema = "sets/schema.json";

// The architecture of this name and those whose kernels are the same.
std::vector<std::string> archs_like(const std::string& name) {
  std::vector<std::string> out = {name};
  for (const ArchSpec& a : all_archs()) {
    if (a.like == name) out.push_back(a.name);
  }
  return out;
}

// Every config for every type, layout and architecture of the group.
void add_group(const Json& group, Registry& kernels) {
  Members in(group);
  const auto configs = read_strings(in.at("configs")), dtypes = read_strings(in.at("dtypes")),
             archs = read_strings(in.at("archs"));
  const Json* const given = in.find("layouts");
  const auto layouts = given ? read_strings(*given) : std::vector<std::string>{"*"};
  in.finish();
  for (const std::string& config : configs) {
    for (const std::string& dtype : dtypes) {
      for (const std::string& layout : layouts) {
        for (const std::string& named : archs) {
          for (const std::string& arch : archs_like(named)) {
            if (!kernels.add(
                    {.config = config, .exact = true, .dtype = dtype, .layout = layout, .arch = arch})) {
              throw Error(ErrorCode::bad_input,
                          "'" + config + "' is named twice for " + dtype + " on " + arch);
            }
          }
        }
      }
    }
  }
}

std::vector<KernelSet> load() {
  std::vector<KernelSet> sets;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path.substr(0, kFolder.size()) != kFolder || file.path == kSchema) continue;
    sets.push_back(parse_kernel_set(file.text, file.path));
  }
  std::sort(sets.begin(), sets.end(), [](const KernelSet& x, const KernelSet& y) { return x.name < y.name; });
  return sets;
}

}  // namespace

KernelSet parse_kernel_set(std::string_view json_text, std::string_view origin) {
  const Json json = Json::parse(json_text, origin);
  try {
    Members in(json);
    KernelSet set{in.at("name").as_string(),  in.at("doc").as_string(),         in.at("variant").as_string(),
                  in.at("sizes").as_string(), read_strings(in.at("epilogues")), nullptr};
    auto kernels = std::make_shared<Registry>(set.name);
    for (const Json& group : in.at("kernels").items()) add_group(group, *kernels);
    in.finish();
    set.kernels = kernels;
    return set;
  } catch (const Error& e) { throw e.on(origin); }
}

std::span<const KernelSet> kernel_sets() {
  static const std::vector<KernelSet> sets = load();
  return sets;
}

const KernelSet& find_kernel_set(std::string_view name) {
  std::vector<std::string> names;
  for (const KernelSet& set : kernel_sets()) {
    if (set.name == name) return set;
    names.push_back(set.name);
  }
  const std::string hint = typing_hint(name, names);
  throw Error(ErrorCode::bad_input, "unknown kernel set '" + std::string(name) + "'",
              hint + (hint.empty() ? "" : " ") + "the sets are " + join(names, " "));
}

}  // namespace tessera
