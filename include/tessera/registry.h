// Registry: the kernels a Dispatcher may choose from, declared exactly or by pattern, with priorities.
#pragma once

#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/json.h"
#include "tessera/kernel_config.h"
#include "tessera/problem.h"

namespace tessera {

// One declaration. `config` is a config's text form. Exact: knobs left out have their defaults. Pattern:
// knobs left out are free, and a value may be '*': "cpu_packed tile=*x64", or "*" for any family.
struct KernelDecl {
  std::string config;
  bool exact = false;
  std::string dtype = "*";   // glob over the problem's dtype text: "bf16", "u8xi8", "f8*"; aliases: "fp32"
  std::string layout = "*";  // glob: "rcr", "r*r"
  std::string arch = "*";    // glob over architecture names: "x86_*"
  int priority = 0;          // higher is preferred

  bool operator==(const KernelDecl&) const = default;
};

Json to_json(const KernelDecl& d);

// Thread-safe. A declaration's identity is everything but its priority, in the form that add() gives it:
// knobs in their order with one blank between them, knobs that are free left out of a pattern, types by
// their names.
//
// One rule for ties: of equal identities the higher priority stays, and of equal priorities the one declared
// first. A config allowed by several declarations has the highest of their priorities. A dispatcher prefers
// higher priorities, then its policy's order.
class Registry {
 public:
  explicit Registry(std::string name = "default");
  Registry(const Registry& other);
  ~Registry();
  Registry& operator=(const Registry&) = delete;

  // A kernel-set file: one declaration per line, '#' starts a comment.
  //   exact cpu_packed tile=6x64 inst=1x16x1 dtype=f32 priority=10
  //   any   cpu_dot tile=4x* layout=rcr arch=x86_*
  // Or a registry's JSON, which keeps the name it holds. Error(bad_input) with the line or the kernel for
  // anything unknown or given twice; then nothing of the text is added.
  static std::shared_ptr<Registry> parse(std::string_view text, std::string_view name = "default");

  const std::string& name() const { return name_; }

  // False when an equal identity of at least this priority is there. Error(bad_input) when the config does
  // not parse, a pattern can match nothing, or the priority is beyond a million.
  bool add(const KernelDecl& decl);
  size_t size() const;
  std::vector<KernelDecl> all() const;  // in order of declaration
  void clear();

  // Copies `other`'s declarations in, by the rule for ties. Returns how many came in or rose in priority.
  size_t merge(const Registry& other);
  // Keeps what the predicate accepts; returns how many were dropped. The predicate may use the registry;
  // where it throws, nothing is dropped.
  size_t filter(const std::function<bool(const KernelDecl&)>& keep);
  // The same, keeping what applies to the architecture of this name.
  size_t filter_by_arch(std::string_view arch);

  // The priority of `config` for this problem and architecture, or false when nothing declares it.
  bool find(const Problem& problem, std::string_view arch, const KernelConfig& config, int* priority) const;
  // Whether some declaration is for this problem's types and layout and this architecture.
  bool applies(const Problem& problem, std::string_view arch) const;
  // The exactly declared configs that apply: candidates even where they lie outside the enumerated space.
  std::vector<KernelConfig> exact_configs(const Problem& problem, std::string_view arch) const;

  // {version, name, statistics, kernels: [...]}; from_json(to_json()) declares the same. Statistics count
  // declarations by family, pipeline, scheduler, dtype, layout and arch. Unknown keys are refused.
  Json to_json() const;
  static std::shared_ptr<Registry> from_json(const Json& json);

 private:
  struct Entry;
  bool add_locked(Entry entry);

  std::string name_;
  mutable std::shared_mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace tessera
