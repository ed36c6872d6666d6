// The models' choices against the best of what a sweep measured: sweep_oracle DIR OUT.csv [DEVICE]
//   DIR: `tessera sweep plan DIR ... --candidates all`, run. DEVICE: of whose architecture legality and
//   models are asked, for a machine without the sweep's own ("null:sm_90a"). Times are the sweep's medians.
#include <cstdio>
#include <map>
#include <string>

#include "backend/backend.h"
#include "oracle.h"
#include "tune/sweep_plan.h"
#include "tune/sweep_record.h"

int main(int argc, char** argv) {
  using namespace tessera;
  if (argc < 3 || argc > 4) return std::printf("sweep_oracle DIR OUT.csv [DEVICE]\n"), 2;
  try {
    const SweepPlan plan = read_sweep_plan(argv[1]);
    const SweepResults results = SweepResults::read(argv[1]);
    const std::string device = argc > 3 ? argv[3] : plan.device;
    const auto backend = make_backend(device, plan.threads);
    Oracle oracle(argv[2], device, backend->arch());
    std::map<std::string, size_t> outcomes;
    for (const SweepProblem& p : plan.problems) {
      std::map<std::string, double> us;
      for (size_t c : p.configs) {
        const std::string config = to_string(plan.configs[c]);
        const SweepRecord* r = results.find(to_string(p.problem), config);
        ++outcomes[r ? std::string(to_string(r->outcome)) : "not measured"];
        if (r && r->outcome == SweepOutcome::ok) us[config] = r->median_us;
      }
      if (!us.empty()) oracle.add(p.problem, us);
    }
    for (const auto& [outcome, count] : outcomes) std::printf("%zu %s\n", count, outcome.c_str());
    oracle.print();
  } catch (const std::exception& e) { return std::printf("%s\n", e.what()), 1; }
  return 0;
}
