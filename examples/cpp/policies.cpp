// The ways to select a kernel, on one problem: predicted, measured, first legal, and one given by name.
#include <cstdio>
#include <string>
#include <vector>

#include "tessera/dispatcher.h"
#include "tessera/error.h"

int main() try {
  const auto problem = tessera::Problem::parse("gemm m=64 n=192 k=64 dtype=f32 layout=rrr");
  std::vector<float> a(64 * 64, 1.0f), b(64 * 192, 2.0f), c(64 * 192);
  std::string first_legal;
  for (auto policy : {tessera::Policy::model, tessera::Policy::model_topk, tessera::Policy::first_legal,
                      tessera::Policy::explicit_config}) {
    tessera::DispatcherOptions options{.threads = 1, .policy = policy, .top_k = 2};
    if (policy == tessera::Policy::explicit_config) options.config = first_legal;
    tessera::Dispatcher dispatcher(options);
    const tessera::Kernel& kernel = dispatcher.get(problem);
    kernel.run({.a = a.data(), .b = b.data(), .c = c.data()});
    if (c[0] != 128) return std::printf("wrong: %g\n", c[0]), 1;
    const std::string config = to_string(kernel.choice().config);
    if (policy == tessera::Policy::first_legal) first_legal = config;
    if (policy == tessera::Policy::explicit_config && config != first_legal) return 1;
    std::printf("%-12s %s\n", std::string(to_string(policy)).c_str(), config.c_str());
  }

  // A problem nobody measured is refused by 'tuned', not replaced by a guess.
  try {
    tessera::Dispatcher({.policy = tessera::Policy::tuned}).get(problem);
    return 1;
  } catch (const tessera::Error& e) {
    std::printf("tuned        %s\n", e.what());
    return e.code() == tessera::ErrorCode::unsupported ? 0 : 1;
  }
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
