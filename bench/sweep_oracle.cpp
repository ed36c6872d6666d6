// The models' choices against the best of what a sweep measured: sweep_oracle DIR OUT.csv [--device DEVICE]
//   DIR: `tessera sweep plan DIR ... --candidates all`, run. DEVICE: of whose architecture legality and
//   models are asked, for a machine without the sweep's own ("null:sm_90a"). Times are the sweep's medians.
#include <cstdio>
#include <map>
#include <string>

#include "backend/backend.h"
#include "oracle.h"
#include "program.h"
#include "tune/sweep_plan.h"
#include "tune/sweep_record.h"

int main(int argc, char** argv) {
  using namespace tessera;
  std::string directory, out, device;
  const Setting settings[] = {{"directory", &directory}, {"out", &out}, {"--device", &device}};
  read_settings(argc, argv, settings, "bench/sweep_oracle.cpp");
  return exit_status([&] {
    const SweepPlan plan = read_sweep_plan(directory);
    const SweepResults results = SweepResults::read(directory);
    if (device.empty()) device = plan.device;
    const auto backend = make_backend(device, plan.threads);
    Oracle oracle(out, device, backend->arch());
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
    return 0;
  });
}
