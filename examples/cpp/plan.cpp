// Plan for a device that is not here: candidates, their predicted times, and why others were refused.
#include <cstdio>
#include <map>
#include <string>

#include "tessera/dispatcher.h"
#include "tessera/error.h"

int main(int argc, char** argv) try {
  const std::string device = argc > 1 ? argv[1] : "null:gfx942";
  const auto problem = tessera::Problem::parse("gemm m=4096 n=4096 k=4096 dtype=bf16 layout=rcr");

  tessera::Dispatcher dispatcher({.device = device});
  const tessera::Explanation all = dispatcher.explain(problem, /*with_rejected=*/true);
  std::printf("%s on %s: %zu candidates, %zu rejected\n", to_string(problem).c_str(), device.c_str(),
              all.candidates.size(), all.rejected.size());
  for (size_t i = 0; i < 3 && i < all.candidates.size(); ++i) {
    std::printf("  %10.1f us  %s\n", all.candidates[i].predicted_us,
                to_string(all.candidates[i].config).c_str());
  }
  std::map<std::string, int> refusals;
  for (const auto& r : all.rejected) ++refusals[r.rule + ": " + r.reason];
  for (const auto& [why, count] : refusals) std::printf("  %8d x %s\n", count, why.c_str());
  return all.candidates.empty() ? 1 : 0;
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
