#include "tune/sweep_worker.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>
#include <thread>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/text.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "runtime/kernel_cache.h"
#include "tessera/error.h"
#include "tune/journal.h"
#include "tune/operands.h"
#include "tune/replayed.h"
#include "tune/verify.h"

namespace tessera {
namespace {

// A sampled check of this many multiply-adds, which each group of a problem computes anew, and of this many
// elements for every configuration: it takes no longer than timing does.
constexpr int64_t kCheckWork = int64_t{1} << 24, kCheckElements = int64_t{1} << 15;

// Ticks while this process is alive: one that is stopped and continued gets a single tick for all that time,
// so it is not taken for a hang.
constexpr int kTicksPerLimit = 5;
constexpr int kUntimed = std::numeric_limits<int>::min();
std::atomic<int> ticks{0};

void start_watchdog(double limit_s) {
  std::thread([limit_s] {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::duration<double>(limit_s / kTicksPerLimit));
      if (++ticks > kTicksPerLimit) _exit(kSweepHung);
    }
  }).detach();
}

void print_record(const Json& record) {
  const std::string line = journal_line(record.dump());
  [[maybe_unused]] const ssize_t n = write(STDOUT_FILENO, line.data(), line.size());
}

// Always the same line of the output, so that it stays short.
void announce(size_t group, size_t index) {
  static off_t place = -1;
  ticks = 0;
  const std::string line = journal_line(format("{\"group\":%8zu,\"at\":%8zu}", group, index));
  if (place >= 0) {
    [[maybe_unused]] const ssize_t n = pwrite(STDOUT_FILENO, line.data(), line.size(), place);
  } else {
    place = lseek(STDOUT_FILENO, 0, SEEK_CUR);
    [[maybe_unused]] const ssize_t n = write(STDOUT_FILENO, line.data(), line.size());
  }
}

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_THREAD, &use);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// One configuration ready to be timed.
struct Prepared {
  size_t index;
  std::unique_ptr<Kernel> kernel;
  GuardedBuffer packed_b;
  Buffers buffers;
};

// The work on one group.
class GroupWork {
 public:
  GroupWork(const SweepJob& job, size_t number, const Backend& backend, KernelCache& cache)
      : job_(job),
        number_(number),
        group_(job.groups[number]),
        backend_(backend),
        cache_(cache),
        operands_(group_.problem, FillKind::uniform, 1, Operands::kTimingAlign),
        records_(group_.configs.size()) {}

  void run() {
    for (size_t i = 0; i < group_.configs.size(); ++i) check(i);
    if (group_.anchor_problem) prepare_anchor();
    time();
    for (size_t i = 0; i < records_.size(); ++i) {
      print_record(Json::object({{"group", static_cast<int64_t>(number_)},
                                 {"index", static_cast<int64_t>(i)},
                                 {"record", to_json(records_[i])}}));
    }
  }

 private:
  std::unique_ptr<Kernel> make(const Problem& problem, const KernelConfig& config) {
    const Source source = render(lower(problem), config, backend_.arch());
    return backend_.prepare(backend_.load(cache_.get_or_build(source, backend_).binary), problem,
                            {config, 0, ChoiceSource::measured});
  }

  // Packed B is kept by the one that has its order; bind() keeps only the last, but on a device the one of
  // all.
  static Prepared bound(size_t index, std::unique_ptr<Kernel> kernel, Operands& operands) {
    Prepared p{index, std::move(kernel), {}, {}};
    p.buffers = operands.bind(*p.kernel);
    if (operands.problem().prepack_b && !p.kernel->memory()) {
      p.packed_b = GuardedBuffer(p.kernel->packed_b_bytes());
      p.kernel->pack_b(operands.b(), p.packed_b.data());
      p.buffers.b = p.packed_b.data();
    }
    return p;
  }

  // What is right is worked out outside the time limit, however long it takes: that is not the kernel's
  // fault.
  const Verifier& verifier(const Kernel& kernel) {
    ticks = kUntimed;
    const Verifier& v = verifiers_.of(arithmetic_of(kernel));
    ticks = 0;
    return v;
  }

  void check(size_t i) {
    announce(number_, i);
    SweepRecord& r = records_[i];
    r.problem = to_string(group_.problem);
    r.config = to_string(group_.configs[i]);
    r.time = std::time(nullptr);
    try {
      std::unique_ptr<Kernel> kernel = make(group_.problem, group_.configs[i]);
      operands_.reset_c();
      Prepared p = bound(i, std::move(kernel), operands_);
      p.kernel->run(p.buffers);
      operands_.fetch(*p.kernel);
      const Verification v = verifier(*p.kernel).check();
      r.max_err = v.max_err;
      r.bound = v.bound;
      r.outcome = v.ok ? SweepOutcome::ok : SweepOutcome::wrong;
      r.detail = v.failure;
      if (v.ok) ready_.push_back(std::move(p));
    } catch (const Error& e) {
      if (e.code() == ErrorCode::device) {
        std::fprintf(stderr, "%s\n", e.what());
        _exit(kSweepDeviceLost);
      }
      r.outcome = e.code() == ErrorCode::compile_failed ? SweepOutcome::compile_failed : SweepOutcome::failed;
      r.detail = e.what();
    }
  }

  void prepare_anchor() {
    announce(number_, group_.configs.size());
    anchor_operands_.emplace(*group_.anchor_problem, FillKind::uniform, 1, Operands::kTimingAlign);
    ready_.push_back(
        bound(group_.configs.size(), make(*group_.anchor_problem, group_.anchor_config), *anchor_operands_));
  }

  bool is_anchor(const Prepared& p) const { return p.index == group_.configs.size(); }

  std::vector<Timing> timed(const MeasureOptions& o) {
    if (!ready_[0].kernel->memory()) {
      std::vector<Repeated> work;
      for (const Prepared& p : ready_) {
        work.push_back([&p](int repeats) {
          for (int i = 0; i < repeats; ++i) p.kernel->run_unchecked(p.buffers);
          p.kernel->wait();
        });
      }
      return measure(work, o);
    }
    const std::vector<Buffers> sets = operands_.bind_sets(*ready_[0].kernel);
    std::vector<Buffers> anchor_sets;
    std::vector<std::shared_ptr<Replayed>> replayed;
    std::vector<SelfTimed> work;
    for (const Prepared& p : ready_) {
      if (is_anchor(p)) anchor_sets = anchor_operands_->bind_sets(*p.kernel);
      replayed.push_back(std::make_shared<Replayed>(*p.kernel, is_anchor(p) ? anchor_sets : sets));
      work.push_back([&r = *replayed.back()](int repeats) { return r(repeats); });
    }
    return measure_self_timed(work, o);
  }

  void time() {
    if (ready_.size() == (group_.anchor_problem ? 1 : 0)) return;
    MeasureOptions o = job_.measure;
    if (group_.anchor_problem) o.apart = ready_.size() - 1;  // a problem of its own, slower or faster
    o.before = [&](size_t i) { announce(number_, ready_[i].index); };
    const bool on_device = ready_[0].kernel->memory() != nullptr;
    const double cpu = cpu_seconds();
    const auto start = Clock::now();
    const std::vector<Timing> times = timed(o);
    const double wall = seconds_since(start);
    const double share = on_device || wall <= 0 ? 1 : std::min(1.0, (cpu_seconds() - cpu) / wall);
    const double anchor_us = group_.anchor_problem ? times.back().best_us : 0;
    for (size_t i = 0; i < ready_.size(); ++i) {
      if (is_anchor(ready_[i])) continue;
      SweepRecord& r = records_[ready_[i].index];
      r.samples = times[i].all;
      r.median_us = times[i].median_us;
      r.best_us = times[i].best_us;
      r.anchor_us = anchor_us;
      r.cpu_share = share;
    }
  }

  const SweepJob& job_;
  size_t number_;
  const SweepGroup& group_;
  const Backend& backend_;
  KernelCache& cache_;
  Operands operands_;
  Verifiers verifiers_{operands_, sample_of(operands_.view(), kCheckWork, kCheckElements)};
  std::optional<Operands> anchor_operands_;
  std::vector<SweepRecord> records_;
  std::vector<Prepared> ready_;
};

}  // namespace

Json to_json(const SweepJob& job) {
  Json groups = Json::array();
  for (const SweepGroup& g : job.groups) {
    Json configs = Json::array();
    for (const KernelConfig& c : g.configs) configs.push(to_string(c));
    groups.push(Json::object({{"problem", to_string(g.problem)},
                              {"configs", std::move(configs)},
                              {"anchor_problem", g.anchor_problem ? to_string(*g.anchor_problem) : ""},
                              {"anchor_config", to_string(g.anchor_config)}}));
  }
  const MeasureOptions& m = job.measure;
  return Json::object({{"device", job.device},
                       {"threads", job.threads},
                       {"cache_dir", job.cache_dir},
                       {"groups", std::move(groups)},
                       {"core", job.core ? Json(*job.core) : Json()},
                       {"batch_us", m.batch_us},
                       {"budget_ms", m.budget_ms},
                       {"min_rounds", m.min_rounds},
                       {"max_rounds", m.max_rounds},
                       {"cold", m.cold},
                       {"precision", m.precision},
                       {"give_up_at", m.give_up_at},
                       {"limit_s", job.limit_s}});
}

SweepJob sweep_job_from_json(const Json& j) {
  SweepJob job;
  job.device = j.at("device").as_string();
  job.threads = static_cast<int>(j.at("threads").as_int());
  if (const Json& core = j.at("core"); !core.is_null()) job.core = static_cast<int>(core.as_int());
  job.cache_dir = j.at("cache_dir").as_string();
  for (const Json& g : j.at("groups").items()) {
    SweepGroup group{.problem = Problem::parse(g.at("problem").as_string())};
    for (const Json& text : g.at("configs").items())
      group.configs.push_back(KernelConfig::read(text.as_string()));
    if (const std::string& text = g.at("anchor_problem").as_string(); !text.empty()) {
      group.anchor_problem = Problem::parse(text);
      group.anchor_config = KernelConfig::read(g.at("anchor_config").as_string());
    }
    job.groups.push_back(std::move(group));
  }
  job.measure = {.batch_us = j.at("batch_us").as_double(),
                 .budget_ms = j.at("budget_ms").as_double(),
                 .min_rounds = static_cast<int>(j.at("min_rounds").as_int()),
                 .max_rounds = static_cast<int>(j.at("max_rounds").as_int()),
                 .cold = j.at("cold").as_bool(),
                 .precision = j.at("precision").as_double(),
                 .give_up_at = j.at("give_up_at").as_double()};
  job.limit_s = j.at("limit_s").as_double();
  return job;
}

SweepReport parse_sweep_report(std::string_view output, const std::vector<SweepGroup>& groups) {
  SweepReport report;
  for (const SweepGroup& g : groups) report.records.emplace_back(g.configs.size());
  for (std::string_view text : journal_records(output)) {
    const Json j = Json::parse(text, "sweep worker");
    const auto group = static_cast<size_t>(j.at("group").as_int());
    if (group >= groups.size()) continue;
    if (const Json* at = j.find("at")) {
      report.group = group;
      report.at = static_cast<size_t>(at->as_int());
    }
    const Json* index = j.find("index");
    if (index && index->as_int() < std::ssize(report.records[group]))
      report.records[group][static_cast<size_t>(index->as_int())] = sweep_record_from_json(j.at("record"));
  }
  return report;
}

int run_sweep_worker(std::string_view text) {
  const SweepJob job = sweep_job_from_json(Json::parse(text, "sweep job"));
  start_watchdog(job.limit_s);
  if (job.core) run_on_core(*job.core);
  const std::unique_ptr<Backend> backend = make_backend(job.device, job.threads);
  KernelCache cache({.directory = job.cache_dir, .max_bytes = INT64_MAX});
  for (size_t i = 0; i < job.groups.size(); ++i) {
    ticks = kUntimed;  // until the first configuration is announced: operands are made
    GroupWork(job, i, *backend, cache).run();
  }
  return 0;
}

}  // namespace tessera
