#include "tune/sweep_ledger.h"
#include "base/clock.h"

#include <algorithm>
#include <ctime>

#include "core/gemm_view.h"
#include "model/model.h"
#include "space/space.h"

namespace tessera {
namespace {

// With an anchor slower by this factor than it can be a group was disturbed.
constexpr double kDrift = 1.3;

constexpr std::string_view kAnchorSizes = "gemm m=192 n=192 k=192 layout=rcr dtype=";

SweepSummary tally(const std::vector<const SweepProblem*>& problems, const SweepPlan& plan,
                   const SweepResults& results) {
  SweepSummary s;
  for (const SweepProblem* p : problems) {
    const std::string text = to_string(p->problem);
    for (size_t c : p->configs) {
      ++s.pairs;
      const SweepRecord* r = results.find(text, to_string(plan.configs[c]));
      r ? ++s.by_outcome[static_cast<size_t>(r->outcome)] : ++s.left;
    }
  }
  return s;
}

}  // namespace

SweepLedger::SweepLedger(SweepPlan plan, const std::string& directory, const SweepOptions& options)
    : plan_(std::move(plan)),
      journal_(sweep_journal_path(directory, options.shard, options.shards)),
      results_(SweepResults::read(directory)) {
  for (size_t i = 0; i < plan_.problems.size(); ++i) {
    if (!options.measure || in_shard(options, i)) mine_.push_back(&plan_.problems[i]);
  }
  for (const SweepRecord& r : results_.records()) note_quickest(r);
  for (const SweepProblem* p : mine_) {
    const std::string problem = to_string(p->problem);
    std::vector<size_t>& todo = todo_[p];
    for (size_t c : p->configs) {
      const std::string config = to_string(plan_.configs[c]);
      const SweepRecord* r = results_.find(problem, config);
      if (r && options.retry.count(r->outcome)) {
        results_.remove(problem, config);
        r = nullptr;
      }
      if (!r) todo.push_back(c);
    }
  }
}

SweepRecord SweepLedger::blank(const SweepProblem& p, size_t config, SweepOutcome outcome,
                               const std::string& detail) const {
  SweepRecord r;
  r.problem = to_string(p.problem);
  r.config = to_string(plan_.configs[config]);
  r.outcome = outcome;
  r.detail = detail;
  r.time = std::time(nullptr);
  return r;
}

// On the disk first: what is counted as done is written down.
void SweepLedger::keep(const std::vector<SweepRecord>& records) {
  if (records.empty()) return;
  std::vector<std::string> lines;
  for (const SweepRecord& r : records) lines.push_back(to_json(r).dump());
  std::lock_guard lock(mutex_);
  journal_.append(lines);
  for (const SweepRecord& r : records) {
    note_quickest(r);
    results_.add(r);
  }
}

bool SweepLedger::quarantined(size_t config) const {
  std::lock_guard lock(mutex_);
  return results_.faults(to_string(plan_.configs[config])) >= kQuarantineAt;
}

bool SweepLedger::disturbed(const std::vector<SweepRecord>& records) const {
  std::lock_guard lock(mutex_);
  return std::any_of(records.begin(), records.end(), [&](const SweepRecord& r) {
    if (r.outcome != SweepOutcome::ok) return false;
    const auto quickest = quickest_anchor_.find(types_text(Problem::parse(r.problem)));
    return r.cpu_share < kQuietShare ||
           (quickest != quickest_anchor_.end() && r.anchor_us > quickest->second * kDrift);
  });
}

std::optional<SweepLedger::Anchor> SweepLedger::anchor_for(const Problem& p, const ArchSpec& arch) {
  std::lock_guard lock(mutex_);
  const auto [found, fresh] = anchors_.try_emplace(types_text(p));
  if (fresh) {
    const Problem anchor = Problem::parse(std::string(kAnchorSizes) + types_text(p));
    const GemmView view = lower(anchor);
    const std::vector<KernelConfig> configs = runnable_configs(view, arch);
    std::vector<double> us(configs.size());
    analytic_model().predict(view, arch, configs, us);
    const auto best = std::min_element(us.begin(), us.end());
    if (best != us.end()) found->second = {anchor, configs[static_cast<size_t>(best - us.begin())]};
  }
  return found->second;
}

void SweepLedger::drop_anchor(const Problem& p) {
  std::lock_guard lock(mutex_);
  anchors_[types_text(p)].reset();
}

void SweepLedger::note_anchors(const std::vector<SweepRecord>& records) {
  std::lock_guard lock(mutex_);
  for (const SweepRecord& r : records) note_quickest(r);
}

void SweepLedger::note_quickest(const SweepRecord& r) {
  if (r.anchor_us <= 0) return;
  double& least =
      quickest_anchor_.try_emplace(types_text(Problem::parse(r.problem)), r.anchor_us).first->second;
  least = std::min(least, r.anchor_us);
}

SweepSummary SweepLedger::summary() const {
  std::lock_guard lock(mutex_);
  return tally(mine_, plan_, results_);
}

SweepSummary sweep_status(const SweepPlan& plan, const SweepResults& results) {
  std::vector<const SweepProblem*> all;
  for (const SweepProblem& p : plan.problems) all.push_back(&p);
  return tally(all, plan, results);
}

Json to_json(const SweepSummary& s) {
  Json out = Json::object({{"pairs", static_cast<int64_t>(s.pairs)}, {"left", static_cast<int64_t>(s.left)}});
  for (size_t i = 0; i < std::size(s.by_outcome); ++i)
    out.set(std::string(to_string(static_cast<SweepOutcome>(i))), static_cast<int64_t>(s.by_outcome[i]));
  return out;
}

}  // namespace tessera
