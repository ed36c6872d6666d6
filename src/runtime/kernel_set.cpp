#include "runtime/kernel_set.h"

#include <algorithm>

#include "base/embedded.h"
#include "base/text.h"
#include "core/arch_spec.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr std::string_view kFolder = "sets/", kSchema = "sets/schema.json";
constexpr std::string_view kKeys[] = {"name", "doc", "variant", "sizes", "epilogues", "kernels"};
constexpr std::string_view kGroupKeys[] = {"archs", "dtypes", "layouts", "configs"};

void refuse_other_keys(const Json& object, std::span<const std::string_view> known) {
  for (const auto& [key, value] : object.members()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      throw Error(ErrorCode::bad_input, "unknown key '" + key + "'");
    }
  }
}

std::vector<std::string> strings(const Json& array) {
  std::vector<std::string> out;
  for (const Json& item : array.items()) out.push_back(item.as_string());
  return out;
}

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
  refuse_other_keys(group, kGroupKeys);
  for (const std::string& config : strings(group.at("configs"))) {
    for (const std::string& dtype : strings(group.at("dtypes"))) {
      for (const std::string& layout :
           group.find("layouts") ? strings(group.at("layouts")) : std::vector<std::string>{"*"}) {
        for (const std::string& named : strings(group.at("archs"))) {
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
    refuse_other_keys(json, kKeys);
    KernelSet set{json.at("name").as_string(),  json.at("doc").as_string(),    json.at("variant").as_string(),
                  json.at("sizes").as_string(), strings(json.at("epilogues")), nullptr};
    auto kernels = std::make_shared<Registry>(set.name);
    for (const Json& group : json.at("kernels").items()) add_group(group, *kernels);
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
