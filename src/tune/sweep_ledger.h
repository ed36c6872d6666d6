// What a run of a sweep knows: the plan, what is left of it, what has come of the rest, and how quick the
// anchor kernels have been. Any thread may ask and write down.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/arch_spec.h"
#include "tune/journal.h"
#include "tune/sweep_plan.h"
#include "tune/sweep_record.h"
#include "tune/sweep_run.h"

namespace tessera {

class SweepLedger {
 public:
  // Resumes where the directory's journals end, of options by shard and retry. A run that only compiles knows
  // the problems of all shards.
  SweepLedger(SweepPlan plan, const std::string& directory, const SweepOptions& options);

  const SweepPlan& plan() const { return plan_; }
  const std::vector<const SweepProblem*>& problems() const { return mine_; }  // in the order of the plan

  // Of one of problems(), what had no outcome when the run began, less what cannot be compiled. Set before
  // threads measure.
  const std::vector<size_t>& todo(const SweepProblem& p) const { return todo_.at(&p); }
  void set_todo(const SweepProblem& p, std::vector<size_t> configs) { todo_[&p] = std::move(configs); }

  SweepRecord blank(const SweepProblem& p, size_t config, SweepOutcome outcome,
                    const std::string& detail) const;

  // On the disk when the call returns.
  void keep(const std::vector<SweepRecord>& records);
  void note_anchors(const std::vector<SweepRecord>& records);  // of records that are not kept yet

  bool quarantined(size_t config) const;

  // Less of its core than it needs, or an anchor slower than it has been.
  bool disturbed(const std::vector<SweepRecord>& records) const;

  // The kernel of the same element types that is timed in every group; none where nothing can run, or since
  // it was dropped.
  using Anchor = std::pair<Problem, KernelConfig>;
  std::optional<Anchor> anchor_for(const Problem& p, const ArchSpec& arch);
  void drop_anchor(const Problem& p);

  SweepSummary summary() const;  // of problems(), by now; `compiled` and `stopped` are the run's to say

 private:
  void note_quickest(const SweepRecord& r);

  const SweepPlan plan_;
  std::vector<const SweepProblem*> mine_;
  std::map<const SweepProblem*, std::vector<size_t>> todo_;
  mutable std::mutex mutex_;  // of what follows
  Journal journal_;
  SweepResults results_;
  std::map<std::string, std::optional<Anchor>> anchors_;  // by element types
  std::map<std::string, double> quickest_anchor_;         // by element types
};

}  // namespace tessera
