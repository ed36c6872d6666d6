#include "tune/sweep_run.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>

#include "backend/backend.h"
#include "base/fs.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/process.h"
#include "base/text.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "model/model.h"
#include "runtime/kernel_cache.h"
#include "runtime/pack.h"
#include "space/space.h"
#include "tessera/error.h"
#include "tune/database.h"
#include "tune/journal.h"
#include "tune/sweep_worker.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// Less of its core than this, or an anchor slower by this factor than it can be, and a group was disturbed.
constexpr double kQuietShare = 0.9, kDrift = 1.3;

// What a child may take in all, beyond its configurations' own limits: a backstop, since it watches itself.
constexpr double kChildStartS = 120;

// Opening a GPU takes as long as measuring many kernels.
constexpr size_t kDeviceBatch = 16;

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

class Sweep {
 public:
  Sweep(const std::string& directory, const SweepOptions& options,
        const std::function<void(const SweepProgress&)>& progress)
      : options_(options),
        progress_(progress),
        plan_(read_sweep_plan(directory)),
        backend_(make_backend(plan_.device, plan_.threads)),
        cache_dir_(options.cache_dir.empty() ? directory + "/kernels" : options.cache_dir),
        cache_({.directory = cache_dir_, .max_bytes = INT64_MAX}),
        journal_(sweep_journal_path(directory, options.shard, options.shards)),
        results_(SweepResults::read(directory)),
        start_(Clock::now()) {
    if (backend_->arch().name != plan_.arch) {
      throw Error(ErrorCode::bad_input,
                  "the plan is for " + plan_.arch + ", and this device is " + backend_->arch().name,
                  "make a plan of its own for this device");
    }
    if (backend_->compiler_identity().empty())
      throw Error(ErrorCode::unsupported, "a sweep needs a compiler", "tessera doctor says what is missing");
    settle_device(directory);
    for (size_t i = 0; i < plan_.problems.size(); ++i) {
      if (!options.measure || in_shard(i)) mine_.push_back(&plan_.problems[i]);
    }
    for (const SweepRecord& r : results_.records()) note_anchor(r);
    for (const SweepProblem* p : mine_) {
      const std::string problem = to_string(p->problem);
      for (size_t c : p->configs) {
        const std::string config = to_string(plan_.configs[c]);
        const SweepRecord* r = results_.find(problem, config);
        if (r && options.retry.count(r->outcome)) results_.remove(problem, config);
        if (!results_.find(problem, config)) todo_[p].push_back(c);
        pairs_ += 1;
      }
    }
  }

  SweepSummary run() {
    if (options_.compile) compile();
    if (options_.measure) measure_all();
    SweepSummary s = tally(mine_, plan_, results_);
    s.compiled = compiled_;
    s.stopped = stop();
    return s;
  }

 private:
  bool in_shard(size_t i) const {
    return i % static_cast<size_t>(options_.shards) == static_cast<size_t>(options_.shard);
  }

  // All of a sweep is measured on one kind of device; the first to run writes down which.
  void settle_device(const std::string& directory) const {
    const ArchSpec& arch = backend_->arch();
    const DeviceInfo here{arch.name, arch.compute_units,
                          arch.backend == BackendKind::cpu ? this_processor().name : arch.description};
    const std::string path = directory + "/" + kDeviceFile;
    if (!path_exists(path))
      write_file_whole(path, Json::object({{"device", to_json(here)}, {"tool", TESSERA_VERSION}}).dump());
    const DeviceInfo there = device_info_from_json(Json::parse(read_file(path), path).at("device"));
    if (there == here) return;
    throw Error(
        ErrorCode::bad_input,
        "this sweep is measured on " + to_json(there).dump() + ", and this is " + to_json(here).dump(),
        "make a plan of its own for this device");
  }

  bool stop() const {
    const double spent = std::chrono::duration<double>(Clock::now() - start_).count();
    return stop_requested() || (options_.budget_s > 0 && spent > options_.budget_s);
  }

  void report(const char* stage, size_t done, size_t total, const std::string& what) {
    if (progress_) progress_({stage, done, total, what});
  }

  bool quarantined(size_t config) const {
    return results_.faults(to_string(plan_.configs[config])) >= kQuarantineAt;
  }

  SweepRecord blank(const SweepProblem& p, size_t config, SweepOutcome outcome,
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
  void keep(const std::vector<SweepRecord>& records) {
    std::vector<std::string> lines;
    for (const SweepRecord& r : records) lines.push_back(to_json(r).dump());
    if (!lines.empty()) journal_.append(lines);
    for (const SweepRecord& r : records) {
      note_anchor(r);
      results_.add(r);
    }
  }

  // Every unit of the pairs to do, once each, those first that most pairs need. A refusal is the outcome of
  // all pairs that need the unit.
  void compile() {
    struct Unit {
      const SweepProblem* problem;
      size_t config;
      size_t pairs;
      std::string refused;  // why, by the compiler
    };
    std::vector<Unit> units;
    std::unordered_map<std::string, size_t> index_of;           // by key
    std::map<const SweepProblem*, std::vector<size_t>> needed;  // of each of todo_
    for (const SweepProblem* p : mine_) {
      const GemmView view = lower(p->problem);
      for (size_t c : todo_[p]) {
        const std::string key = unit_key(render(view, plan_.configs[c], backend_->arch()));
        const auto [found, fresh] = index_of.try_emplace(key, units.size());
        if (fresh) units.push_back({p, c, 0, {}});
        ++units[found->second].pairs;
        needed[p].push_back(found->second);
      }
    }
    std::vector<size_t> order(units.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t x, size_t y) { return units[x].pairs > units[y].pairs; });
    if (!options_.measure) {
      // By the key, so that all agree on it whatever is done already.
      std::vector<size_t> part(units.size());
      for (const auto& [key, unit] : index_of) part[unit] = std::stoull(key.substr(0, 8), nullptr, 16);
      std::erase_if(order, [&](size_t unit) { return !in_shard(part[unit]); });
    }
    std::mutex mutex;
    size_t done = 0;
    in_parallel(order.size(), options_.jobs, [&](size_t i) {
      if (stop()) return;
      Unit& unit = units[order[i]];
      const KernelConfig& config = plan_.configs[unit.config];
      bool fresh = false;
      try {
        const Source source = render(lower(unit.problem->problem), config, backend_->arch());
        fresh = cache_.get_or_build(source, *backend_).from == CacheResult::From::compiled;
      } catch (const Error& e) {
        if (e.code() == ErrorCode::compile_failed) {
          unit.refused = e.what();
        } else if (!stop_requested()) {
          log(LogLevel::warn, e.what());  // worth another try when it is measured
        }
      }
      std::lock_guard lock(mutex);
      compiled_ += fresh;
      report("compiling", ++done, order.size(), to_string(config));
    });
    for (const SweepProblem* p : mine_) {
      std::vector<size_t>& configs = todo_[p];
      std::vector<size_t> rest;
      std::vector<SweepRecord> records;
      for (size_t i = 0; i < configs.size(); ++i) {
        const std::string& refused = units[needed[p][i]].refused;
        if (refused.empty()) {
          rest.push_back(configs[i]);
        } else {
          records.push_back(blank(*p, configs[i], SweepOutcome::compile_failed, refused));
        }
      }
      keep(records);
      configs = std::move(rest);
    }
  }

  struct Group {
    const SweepProblem* problem;
    std::vector<size_t> configs;
  };

  // Of a problem what is to be measured now.
  std::vector<size_t> ready(const SweepProblem& p) {
    std::vector<size_t> configs = todo_[&p];
    if (options_.ready) {
      const GemmView view = lower(p.problem);
      std::erase_if(configs, [&](size_t c) {
        return !cache_.contains(render(view, plan_.configs[c], backend_->arch()), *backend_);
      });
    }
    return configs;
  }

  void measure_all() {
    size_t done = 0;
    for (const auto& [p, configs] : todo_) done += configs.size();
    done = pairs_ - done;
    const bool cpu = backend_->arch().backend == BackendKind::cpu;
    const size_t size = options_.batch ? options_.batch : cpu ? 1 : kDeviceBatch;
    std::vector<Group> batch;
    const auto measure = [&] {
      if (batch.empty() || stop()) return;
      report("measuring", done, pairs_, batch[0].problem->name);
      measure_batch(batch);
      for (const Group& g : batch) done += g.configs.size();
      batch.clear();
    };
    for (const SweepProblem* p : mine_) {
      if (stop()) return;
      const std::vector<size_t> configs = ready(*p);
      for (size_t first = 0; first < configs.size(); first += options_.group) {
        const size_t end = std::min(configs.size(), first + options_.group);
        batch.push_back({p,
                         {configs.begin() + static_cast<ptrdiff_t>(first),
                          configs.begin() + static_cast<ptrdiff_t>(end)}});
        if (batch.size() >= size) measure();
      }
    }
    measure();
    report("measuring", done, pairs_, "done");
  }

  // Together, as long as nothing is out of the ordinary; what is, in the way of single groups.
  void measure_batch(std::span<const Group> groups) {
    size_t next = 0;
    while (next < groups.size()) {
      const std::span<const Group> rest = groups.subspan(next);
      Ran ran;
      const bool quiet = std::none_of(rest.begin(), rest.end(), [&](const Group& g) {
        return std::any_of(g.configs.begin(), g.configs.end(), [&](size_t c) { return quarantined(c); });
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
        if (disturbed(done)) {
          measure_group(*groups[next].problem, groups[next].configs);
        } else {
          keep(done);
        }
        ++next;
      }
      if (stop()) return;
      if (next < groups.size()) {
        measure_group(*groups[next].problem, groups[next].configs);
        ++next;
      }
    }
  }

  struct Ran {
    std::vector<std::vector<std::optional<SweepRecord>>> records;  // by group
    size_t culprit = SIZE_MAX;  // index of what ended the child, in its last group; its size is the anchor
    bool hung = false;
    std::string how;
  };

  Ran run_child(std::span<const Group> groups) {
    SweepJob job{.device = plan_.device,
                 .threads = plan_.threads,
                 .cache_dir = cache_dir_,
                 .groups = {},
                 .measure = options_.timing,
                 .limit_s = options_.limit_s};
    double limit = kChildStartS;
    for (const auto& [p, configs] : groups) {
      SweepGroup group{.problem = p->problem};
      for (size_t c : configs) group.configs.push_back(plan_.configs[c]);
      if (const auto* anchor = anchor_for(p->problem)) {
        group.anchor_problem = anchor->first;
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

  bool disturbed(const std::vector<SweepRecord>& records) const {
    for (const SweepRecord& r : records) {
      if (r.outcome != SweepOutcome::ok) continue;
      const auto quickest = quickest_anchor_.find(types_text(Problem::parse(r.problem)));
      return r.cpu_share < kQuietShare ||
             (quickest != quickest_anchor_.end() && r.anchor_us > quickest->second * kDrift);
    }
    return false;
  }

  void measure_group(const SweepProblem& p, const std::vector<size_t>& configs) {
    std::map<size_t, SweepRecord> records;  // by config
    std::vector<size_t> group, alone;
    for (size_t c : configs) {
      if (quarantined(c)) {
        records[c] = blank(p, c, SweepOutcome::quarantined, "crashed or hung before");
      } else {
        group.push_back(c);
      }
    }
    if (!run_group(p, group, 1, records, &alone)) return;
    // Of a crash in company the company may be guilty: once more, alone.
    for (size_t c : alone) {
      if (!run_group(p, {c}, 2, records, nullptr)) return;
    }
    std::vector<SweepRecord> in_order;
    for (size_t c : configs) in_order.push_back(std::move(records.at(c)));
    keep(in_order);
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
        anchors_[types_text(p.problem)].reset();
        continue;
      }
      if (ran.culprit < group.size()) {
        const size_t c = group[ran.culprit];
        group.erase(group.begin() + static_cast<ptrdiff_t>(ran.culprit));
        if (!ran.hung && alone) {
          alone->push_back(c);
        } else {
          records[c] = blank(p, c, ran.hung ? SweepOutcome::timed_out : SweepOutcome::crashed, ran.how);
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
        for (size_t c : group) records[c] = blank(p, c, SweepOutcome::failed, ran.how);
        return true;
      }
      for (const SweepRecord& r : done) note_anchor(r);
      const bool again = disturbances++ < options_.repeat_disturbed && disturbed(done);
      for (size_t i = 0; i < group.size(); ++i) keep_quickest(records[group[i]], std::move(done[i]));
      if (!again) return true;
    }
    return true;
  }

  // A kernel of the same element types, timed in every group; null where there is none.
  const std::pair<Problem, KernelConfig>* anchor_for(const Problem& p) {
    const auto [found, fresh] = anchors_.try_emplace(types_text(p));
    if (fresh) {
      const Problem anchor = Problem::parse(std::string(kAnchorSizes) + types_text(p));
      const GemmView view = lower(anchor);
      const std::vector<KernelConfig> configs = runnable_configs(view, backend_->arch());
      std::vector<double> us(configs.size());
      analytic_model().predict(view, backend_->arch(), configs, us);
      const auto best = std::min_element(us.begin(), us.end());
      if (best != us.end()) found->second = {anchor, configs[static_cast<size_t>(best - us.begin())]};
    }
    return found->second ? &*found->second : nullptr;
  }

  void note_anchor(const SweepRecord& r) {
    if (r.anchor_us <= 0) return;
    double& least =
        quickest_anchor_.try_emplace(types_text(Problem::parse(r.problem)), r.anchor_us).first->second;
    least = std::min(least, r.anchor_us);
  }

  const SweepOptions& options_;
  const std::function<void(const SweepProgress&)>& progress_;
  SweepPlan plan_;
  std::unique_ptr<Backend> backend_;
  std::string cache_dir_;
  KernelCache cache_;
  Journal journal_;
  SweepResults results_;
  Clock::time_point start_;
  std::vector<const SweepProblem*> mine_;
  std::map<const SweepProblem*, std::vector<size_t>> todo_;
  size_t pairs_ = 0, compiled_ = 0;
  std::map<std::string, std::optional<std::pair<Problem, KernelConfig>>> anchors_;  // by element types
  std::map<std::string, double> quickest_anchor_;                                   // by element types
};

}  // namespace

SweepSummary run_sweep(const std::string& directory, const SweepOptions& options,
                       const std::function<void(const SweepProgress&)>& progress) {
  return Sweep(directory, options, progress).run();
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
