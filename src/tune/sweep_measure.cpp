#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/process.h"
#include "base/text.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "tessera/error.h"
#include "tune/sweep_stages.h"
#include "tune/sweep_worker.h"

namespace tessera {
namespace {

// What a child may take in all, beyond its configurations' own limits: a backstop, since it watches itself.
constexpr double kChildStartS = 120;

// Opening a GPU takes as long as measuring many kernels.
constexpr size_t kDeviceBatch = 16;

struct Group {
  const SweepProblem* problem;
  std::vector<size_t> configs;
};

// What is to be measured, in batches of groups that one child is given. Any thread may take the next one.
class Batches {
 public:
  explicit Batches(const SweepStage& stage) : stage_(stage), total_(stage.ledger.summary().pairs) {
    const bool cpu = stage.backend.arch().backend == BackendKind::cpu;
    size_ = stage.options.batch ? stage.options.batch : cpu ? 1 : kDeviceBatch;
    done_ = total_;
    for (const SweepProblem* p : stage.ledger.problems()) done_ -= stage.ledger.todo(*p).size();
  }

  // Empty: all are taken, or the run is to stop.
  std::vector<Group> take() {
    std::lock_guard lock(mutex_);
    std::vector<Group> batch;
    while (batch.size() < size_ && !stage_.stop()) {
      if (first_ >= ready_.size()) {
        if (next_ == stage_.ledger.problems().size()) break;
        problem_ = stage_.ledger.problems()[next_++];
        ready_ = ready(*problem_);
        first_ = 0;
        continue;
      }
      const size_t end = std::min(ready_.size(), first_ + stage_.options.group);
      const auto at = [&](size_t i) { return ready_.begin() + static_cast<ptrdiff_t>(i); };
      batch.push_back({problem_, {at(first_), at(end)}});
      first_ = end;
    }
    if (stage_.stop()) return {};
    if (!batch.empty()) report(batch[0].problem->name);
    return batch;
  }

  void done(const std::vector<Group>& batch) {
    std::lock_guard lock(mutex_);
    for (const Group& g : batch) done_ += g.configs.size();
  }

  void halt() {  // the others have an error to wait for
    std::lock_guard lock(mutex_);
    next_ = stage_.ledger.problems().size();
    ready_.clear();
  }

  void report(const std::string& what) const { stage_.progress({"measuring", done_, total_, what}); }

 private:
  // Of a problem what is to be measured now.
  std::vector<size_t> ready(const SweepProblem& p) const {
    std::vector<size_t> configs = stage_.ledger.todo(p);
    if (stage_.options.ready) {
      const GemmView view = lower(p.problem);
      std::erase_if(configs, [&](size_t c) {
        const Source source = render(view, stage_.ledger.plan().configs[c], stage_.backend.arch());
        return !stage_.cache.contains(source, stage_.backend);
      });
    }
    return configs;
  }

  const SweepStage& stage_;
  std::mutex mutex_;
  size_t size_, total_, done_;
  size_t next_ = 0;  // problem
  const SweepProblem* problem_ = nullptr;
  std::vector<size_t> ready_;  // of problem_
  size_t first_ = 0;           // of ready_ that no batch has
};

// Runs batches in children, one after the other, on one core where one is given.
class Lane {
 public:
  Lane(const SweepStage& stage, std::optional<int> core)
      : options_(stage.options), stage_(stage), ledger_(stage.ledger), core_(core) {}

  // Together, as long as nothing is out of the ordinary; what is, in the way of single groups.
  void measure(std::span<const Group> groups) {
    size_t next = 0;
    while (next < groups.size()) {
      const std::span<const Group> rest = groups.subspan(next);
      Ran ran;
      const bool quiet = std::none_of(rest.begin(), rest.end(), [&](const Group& g) {
        return std::any_of(g.configs.begin(), g.configs.end(),
                           [&](size_t c) { return ledger_.quarantined(c); });
      });
      if (rest.size() > 1 && quiet) ran = run_child(rest);
      for (auto& records : ran.records) {
        const bool whole =
            std::all_of(records.begin(), records.end(), [](const auto& r) { return r.has_value(); });
        if (!whole) break;
        std::vector<SweepRecord> done;
        for (auto& r : records) {
          r->attempts = 1;
          done.push_back(std::move(*r));
        }
        if (ledger_.disturbed(done)) {
          measure_group(groups[next]);
        } else {
          ledger_.keep(done);
        }
        ++next;
      }
      if (stage_.stop()) return;
      if (next < groups.size()) {
        measure_group(groups[next]);
        ++next;
      }
    }
  }

 private:
  struct Ran {
    std::vector<std::vector<std::optional<SweepRecord>>> records;  // by group
    size_t culprit = SIZE_MAX;  // index of what ended the child, in its last group; its size is the anchor
    bool hung = false;
    std::string how;
  };

  Ran run_child(std::span<const Group> groups) {
    const SweepPlan& plan = ledger_.plan();
    SweepJob job{.device = plan.device,
                 .threads = plan.threads,
                 .core = core_,
                 .cache_dir = stage_.cache_dir,
                 .groups = {},
                 .measure = options_.timing,
                 .limit_s = options_.limit_s};
    double limit = kChildStartS;
    for (const auto& [p, configs] : groups) {
      SweepGroup group{.problem = p->problem};
      for (size_t c : configs) group.configs.push_back(plan.configs[c]);
      if (auto anchor = ledger_.anchor_for(p->problem, stage_.backend.arch())) {
        group.anchor_problem = std::move(anchor->first);
        group.anchor_config = anchor->second;
      }
      job.groups.push_back(std::move(group));
      limit += 2 * options_.limit_s * static_cast<double>(configs.size() + 1);
    }
    const ProcessResult child = run_process(options_.worker, to_json(job).dump(), limit);
    if (child.end == ProcessResult::End::not_started) {
      throw Error(ErrorCode::io, "the sweep's worker " + child.describe(), "check " + options_.worker[0]);
    }
    SweepReport report = parse_sweep_report(child.out, job.groups);
    Ran ran{std::move(report.records), SIZE_MAX, false, child.describe()};
    if (!child.ok() && child.end != ProcessResult::End::interrupted) {
      ran.culprit = report.at;
      ran.hung = child.end == ProcessResult::End::timed_out ||
                 (child.end == ProcessResult::End::exited && child.code == kSweepHung);
      if (ran.hung) ran.how = format("gave no sign of life for %g s", options_.limit_s);
      if (ran.culprit == SIZE_MAX) ran.how += ": " + child.out.substr(0, 400);
    }
    return ran;
  }

  void measure_group(const Group& whole) {
    const auto& [p, configs] = whole;
    std::map<size_t, SweepRecord> records;  // by config
    std::vector<size_t> group, alone;
    for (size_t c : configs) {
      if (ledger_.quarantined(c)) {
        records[c] = ledger_.blank(*p, c, SweepOutcome::quarantined, "crashed or hung before");
      } else {
        group.push_back(c);
      }
    }
    if (!run_group(*p, group, 1, records, &alone)) return;
    // Of a crash in company the company may be guilty: once more, alone.
    for (size_t c : alone) {
      if (!run_group(*p, {c}, 2, records, nullptr)) return;
    }
    std::vector<SweepRecord> in_order;
    for (size_t c : configs) in_order.push_back(std::move(records.at(c)));
    ledger_.keep(in_order);
  }

  // False when it was interrupted. Without `alone` a crash is final.
  bool run_group(const SweepProblem& p, std::vector<size_t> group, int attempt,
                 std::map<size_t, SweepRecord>& records, std::vector<size_t>* alone) {
    int disturbances = 0, starts = 0;
    while (!group.empty()) {
      const Group one{&p, group};
      Ran ran = run_child({&one, 1});
      if (interrupted()) return false;
      if (ran.culprit == group.size()) {
        log(LogLevel::warn,
            "the anchor kernel of " + to_string(p.problem) + " " + ran.how + "; going on without");
        ledger_.drop_anchor(p.problem);
        continue;
      }
      if (ran.culprit < group.size()) {
        const size_t c = group[ran.culprit];
        group.erase(group.begin() + static_cast<ptrdiff_t>(ran.culprit));
        if (!ran.hung && alone) {
          alone->push_back(c);
        } else {
          records[c] =
              ledger_.blank(p, c, ran.hung ? SweepOutcome::timed_out : SweepOutcome::crashed, ran.how);
          records[c].attempts = attempt;
        }
        continue;
      }
      std::vector<SweepRecord> done;
      for (auto& r : ran.records[0]) {
        if (!r) break;
        r->attempts = attempt;
        done.push_back(std::move(*r));
      }
      if (done.size() < group.size()) {  // it never got to the first of them
        if (++starts < 2) continue;
        for (size_t c : group) records[c] = ledger_.blank(p, c, SweepOutcome::failed, ran.how);
        return true;
      }
      ledger_.note_anchors(done);
      const bool again = disturbances++ < options_.repeat_disturbed && ledger_.disturbed(done);
      for (size_t i = 0; i < group.size(); ++i) keep_quickest(records[group[i]], std::move(done[i]));
      if (!again) return true;
    }
    return true;
  }

  const SweepOptions& options_;
  const SweepStage& stage_;
  SweepLedger& ledger_;
  std::optional<int> core_;
};

}  // namespace

void measure_stage(const SweepStage& stage) {
  Batches batches(stage);
  std::vector<std::optional<int>> cores(stage.options.cores.begin(), stage.options.cores.end());
  if (cores.empty()) cores.emplace_back();
  in_parallel(cores.size(), static_cast<int>(cores.size()), [&](size_t i) {
    Lane lane(stage, cores[i]);
    try {
      for (std::vector<Group> batch; !(batch = batches.take()).empty(); batches.done(batch))
        lane.measure(batch);
    } catch (...) {
      batches.halt();
      throw;
    }
  });
  if (!stage.stop()) batches.report("done");
}

}  // namespace tessera
