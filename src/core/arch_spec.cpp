#include "core/arch_spec.h"

#include <algorithm>

#include "base/embedded.h"
#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

std::vector<ArchSpec> load_all() {
  constexpr std::string_view folder = "arch/", ending = ".json";
  std::vector<ArchSpec> out;
  for (const EmbeddedFile& file : embedded_files()) {
    if (!file.path.starts_with(folder) || file.path == "arch/schema.json") continue;
    out.push_back(parse_arch(file.text, file.path));
    const std::string_view stem =
        file.path.substr(folder.size(), file.path.size() - folder.size() - ending.size());
    if (out.back().name != stem) {
      throw Error(ErrorCode::bad_input, std::string(file.path) + ": name is '" + out.back().name + "'",
                  "an architecture is named as its file");
    }
  }
  return out;
}

}  // namespace

double ArchSpec::cost(std::string_view cost_name) const {
  for (const auto& [key, value] : costs) {
    if (key == cost_name) return value;
  }
  throw Error(ErrorCode::internal, "architecture " + name + " has no cost '" + std::string(cost_name) + "'");
}

bool ArchSpec::runs(Family f) const {
  return std::find(families.begin(), families.end(), f) != families.end();
}

std::vector<const Instruction*> ArchSpec::instructions_for(DType a, DType b) const {
  std::vector<const Instruction*> out;
  for (const Instruction& i : instructions) {
    if (i.a == a && i.b == b) out.push_back(&i);
  }
  return out;
}

const Instruction* ArchSpec::find_instruction(DType a, DType b, const KernelConfig& c) const {
  for (const Instruction& i : instructions) {
    if (i.n == c.inst_n && i.m == c.inst_m && i.k == c.inst_k && i.a == a && i.b == b) return &i;
  }
  return nullptr;
}

bool ArchSpec::issues_halves(const Instruction& i) const {
  return !i.half() && std::any_of(instructions.begin(), instructions.end(), [&](const Instruction& other) {
    return other.half() && other.operation() == i.name;
  });
}

int64_t ArchSpec::smem_limit(Pipeline p, int double_buffer) const {
  if (const PipelineTraits* row = find_pipeline(p)) {
    for (size_t i = 0; i < row->double_buffer.size(); ++i) {
      if (row->double_buffer[i] == double_buffer) return row->smem_bytes[i];
    }
  }
  return smem_bytes;
}

std::span<const ArchSpec> all_archs() {
  static const auto& archs = *new std::vector<ArchSpec>(load_all());  // for threads while the process ends
  return archs;
}

const ArchSpec& find_arch(std::string_view name) {
  std::vector<std::string> names;
  for (const ArchSpec& a : all_archs()) {
    if (a.name == name) return a;
    names.push_back(a.name);
  }
  const std::string hint = typing_hint(name, names);
  throw Error(ErrorCode::bad_input, "unknown architecture '" + std::string(name) + "'",
              hint + (hint.empty() ? "" : " ") + "known are " + join(names, " "));
}

}  // namespace tessera
