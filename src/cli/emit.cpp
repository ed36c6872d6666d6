#include "cli/invocation.h"
#include "cli/output.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    {"--arch", "ARCH", "for this architecture, without a device", Complete::arch},
    {"--whole", "", "with the included headers in place, as it is compiled"},
    {"--suite", "CSV", "take the problem from a suite", Complete::suite},
    {"--name", "NAME", "the row of the suite"},
    {"--dtype", "T", "element types instead of the suite's", Complete::dtype},
};

int run(const Invocation& call) {
  const Problem problem = call.problem();
  Dispatcher dispatcher(call.dispatcher_options());
  const std::string text = dispatcher.emit(problem, call.has("--whole"));
  if (call.json()) {
    print_json(Json::object({{"problem", to_string(problem)},
                             {"arch", dispatcher.describe().at("arch")},
                             {"config", to_string(dispatcher.explain(problem).choice.config)},
                             {"text", text}}));
  } else {
    print(text);
  }
  return kOk;
}

}  // namespace

const Command emit_command{.name = "emit",
                           .words = "PROBLEM",
                           .summary = "print the generated source of the chosen kernel",
                           .options = kOptions,
                           .run = run,
                           .uses = kDispatcher,
                           .complete = Complete::problem};

}  // namespace tessera::cli
