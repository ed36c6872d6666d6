#include <array>

#include "cli/command.h"

namespace tessera::cli {

std::span<const Command* const> commands() {
#define TESSERA_ROW(name) &name##_command,
  static constexpr const Command* kTable[] = {TESSERA_COMMANDS(TESSERA_ROW)};
#undef TESSERA_ROW
  return kTable;
}

std::span<const Option> global_options() {
  static constexpr std::array<Option, 13> kOptions = {{
      {"--device", "DEVICE", "cpu, cpu:THREADS, cuda:N, or null:ARCH to plan without a device"},
      {"--threads", "N", "threads of a CPU run; 0 = all cores"},
      {"--policy", "POLICY", "how a kernel is chosen: model model_topk tuned explicit first_legal",
       Complete::policy},
      {"--config", "CONFIG", "the kernel configuration to use, in text form"},
      {"--top-k", "K", "candidates that model_topk compiles and times; 0 = by the model's error band (0)"},
      {"--model", "FILE", "what predicts times: a model file, or analytic, instead of the shipped one",
       Complete::file},
      {"--cache-dir", "DIR", "kernel cache instead of TESSERA_CACHE_DIR", Complete::directory},
      {"--db", "FILE", "measurements and decisions, instead of TESSERA_DB; none = do without",
       Complete::file},
      {"--pack", "FILE", "prebuilt kernels to look in first; may be repeated", Complete::file},
      {"--registry", "FILE", "choose only from the kernels this file declares; may be repeated",
       Complete::file},
      {"--json", "", "data as JSON on stdout"},
      {"--quiet", "", "no progress on stderr"},
      {"--help", "", "help of the command"},
  }};
  return kOptions;
}

const Command* find_command(std::string_view name) {
  for (const Command* c : commands()) {
    if (c->name == name) return c;
  }
  return nullptr;
}

}  // namespace tessera::cli
