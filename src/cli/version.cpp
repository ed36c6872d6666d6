#include "cli/invocation.h"
#include "cli/output.h"
#include "core/artifact.h"

namespace tessera::cli {
namespace {

int run(const Invocation& call) {
  call.no_more_words(0);
  if (call.json()) {
    print_json(Json::object({{"version", TESSERA_VERSION}, {"kernel_abi", kKernelAbi}}));
  } else {
    print("tessera " TESSERA_VERSION);
  }
  return kOk;
}

}  // namespace

const Command version_command{
    .name = "version", .words = "", .summary = "version of the program", .options = {}, .run = run};

}  // namespace tessera::cli
