#include <algorithm>

#include "base/text.h"
#include "cli/command.h"

namespace tessera::cli {

std::span<const Command* const> commands() {
#define TESSERA_ROW(name) &name##_command,
  static constexpr const Command* kTable[] = {TESSERA_COMMANDS(TESSERA_ROW)};
#undef TESSERA_ROW
  return kTable;
}

std::span<const SharedOption> shared_options() {
  static constexpr SharedOption kOptions[] = {
      {kDevice,
       {"--device", "DEVICE", "cpu, cpu:THREADS, cuda:N, or null:ARCH to plan without a device",
        Complete::device}},
      {kThreads, {"--threads", "N", "threads of a CPU run; 0 = all cores"}},
      {kChoice,
       {"--policy", "POLICY", "how a kernel is chosen: model model_topk tuned explicit first_legal",
        Complete::policy}},
      {kChoice, {"--config", "CONFIG", "the kernel configuration to use, in text form"}},
      {kChoice,
       {"--top-k", "K", "candidates that model_topk compiles and times; 0 = by the model's error band (0)"}},
      {kModel,
       {"--model", "FILE", "what predicts times: a model file, or analytic, instead of the shipped one",
        Complete::file}},
      {kCache, {"--cache-dir", "DIR", "kernel cache instead of TESSERA_CACHE_DIR", Complete::directory}},
      {kDatabase,
       {"--db", "FILE", "measurements and decisions, instead of TESSERA_DB; none = do without",
        Complete::file}},
      {kPacks,
       many({"--pack", "FILE", "prebuilt kernels to look in first; may be repeated", Complete::file})},
      {kChoice, many({"--registry", "FILE",
                      "choose only from the kernels this file declares; may be repeated", Complete::file})},
      {kJson, {"--json", "", "data as JSON on stdout"}},
      {0, {"--quiet", "", "no progress on stderr"}},
      {0, {"--help", "", "help of the command"}},
  };
  return kOptions;
}

const Command* find_command(std::string_view name) {
  for (const Command* c : commands()) {
    if (c->name == name) return c;
  }
  return nullptr;
}

const Option* find_option(const Command& command, std::string_view name) {
  for (const Option& o : command.options) {
    if (o.name == name) return &o;
  }
  for (const SharedOption& s : shared_options()) {
    if (s.option.name == name) return &s.option;
  }
  return nullptr;
}

bool takes(const Command& command, const Action* action, std::string_view option) {
  for (const Option& o : command.options) {
    if (o.name != option) continue;
    const auto actions = split_words(o.only);
    return actions.empty() || !action || std::ranges::count(actions, action->name) > 0;
  }
  for (const SharedOption& s : shared_options()) {
    if (s.option.name != option) continue;
    if (s.use == 0) return true;
    if (action || command.actions.empty()) return ((action ? action->uses : command.uses) & s.use) != 0;
    return std::ranges::any_of(command.actions, [&](const Action& a) { return (a.uses & s.use) != 0; });
  }
  return false;
}

std::string takers(const Command& command, std::string_view option) {
  std::vector<std::string> names;
  size_t shown = 0;
  for (const Action& a : command.actions) {
    if (a.hidden) continue;
    ++shown;
    if (takes(command, &a, option)) names.emplace_back(a.name);
  }
  return names.size() < shown ? join(names, " ") : "";
}

}  // namespace tessera::cli
