#include "tune/tune.h"

#include <map>
#include <set>

#include "backend/backend.h"
#include "base/fs.h"

namespace tessera {

std::vector<TunedDecision> tune(const std::vector<SuiteRow>& problems, const TuneOptions& o,
                                const std::string& database,
                                std::vector<std::pair<std::string, std::string>>* skipped,
                                const std::function<void(const SweepProgress&)>& progress, bool* stopped) {
  Database db(database, Database::Mode::write);  // before the work: it may not be writable
  const TempDir dir(temp_directory());
  const auto backend = make_backend(o.device, o.threads);
  write_sweep_plan(plan_sweep(problems, o.device, o.threads, backend->arch(), o.candidates, skipped),
                   dir.path());
  const SweepSummary summary = run_sweep(dir.path(), o.sweep, progress);
  if (stopped) *stopped = summary.stopped;
  const std::vector<Measurement> measured = measurements_of_sweep(dir.path());
  db.add(measured);
  std::map<std::string, TunedDecision> best;
  for (const Measurement& m : measured) {
    const SweepRecord& r = m.record;
    if (r.outcome != SweepOutcome::ok) continue;
    TunedDecision& there = best[r.problem];
    if (there.config.empty() || r.median_us < there.us)
      there = {m.device.arch, m.device.units, r.problem, r.config, r.median_us, r.time};
  }
  std::vector<TunedDecision> decisions;
  for (auto& [problem, d] : best) decisions.push_back(std::move(d));
  db.decide(decisions);
  return decisions;
}

std::vector<std::string> undecided(const std::vector<SuiteRow>& problems,
                                   const std::vector<TunedDecision>& decisions,
                                   const std::vector<std::pair<std::string, std::string>>& skipped) {
  std::set<std::string> settled;
  for (const TunedDecision& d : decisions) settled.insert(d.problem);
  for (const auto& [problem, why] : skipped) settled.insert(problem);
  std::vector<std::string> left;
  for (const SuiteRow& row : problems) {
    std::string problem = to_string(row.problem);
    if (settled.insert(problem).second) left.push_back(std::move(problem));
  }
  return left;
}

}  // namespace tessera
