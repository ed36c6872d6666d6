#include "tune/sweep_worker.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>

#include "backend/backend.h"
#include "base/text.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "runtime/kernel_cache.h"
#include "tessera/error.h"
#include "tune/journal.h"
#include "tune/operands.h"
#include "tune/verify.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// A sampled check of this many multiply-adds: each group of a problem computes it anew.
constexpr int64_t kCheckWork = int64_t{1} << 25;

// Ticks while this process is alive: one that is stopped and continued gets a single tick for all that time,
// so it is not taken for a hang.
constexpr int kTicksPerLimit = 5;
std::atomic<int> ticks{0};

void on_tick(int) {
  if (++ticks > kTicksPerLimit) _exit(kSweepHung);
}

void start_watchdog(double limit_s) {
  struct sigaction action {};
  action.sa_handler = on_tick;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const auto us = static_cast<int64_t>(limit_s * 1e6 / kTicksPerLimit);
  itimerval timer{};
  timer.it_interval = {us / 1000000, us % 1000000};
  timer.it_value = timer.it_interval;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

void print_record(const Json& record) {
  const std::string line = journal_line(record.dump());
  [[maybe_unused]] const ssize_t n = write(STDOUT_FILENO, line.data(), line.size());
}

// Always the same line of the output, so that it stays short.
void announce(size_t index) {
  static off_t place = -1;
  ticks = 0;
  const std::string line = journal_line(format("{\"at\":%8zu}", index));
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

class Worker {
 public:
  explicit Worker(SweepJob job)
      : job_(std::move(job)),
        backend_(make_backend(job_.device, job_.threads)),
        cache_({.directory = job_.cache_dir, .max_bytes = INT64_MAX}),
        operands_(job_.problem, FillKind::uniform, 1, Operands::kTimingAlign),
        records_(job_.configs.size()) {}

  void run() {
    for (size_t i = 0; i < job_.configs.size(); ++i) check(i);
    if (job_.anchor_problem) prepare_anchor();
    time();
    for (size_t i = 0; i < records_.size(); ++i) {
      print_record(Json::object({{"index", static_cast<int64_t>(i)}, {"record", to_json(records_[i])}}));
    }
  }

 private:
  std::unique_ptr<Kernel> make(const Problem& problem, const KernelConfig& config) {
    const Source source = render(lower(problem), config, backend_->arch());
    return backend_->prepare(backend_->load(cache_.get_or_build(source, *backend_).binary), problem,
                             {config, 0, ChoiceSource::measured});
  }

  // Packed B is kept by the one that has its order; bind() keeps only the last.
  static Prepared bound(size_t index, std::unique_ptr<Kernel> kernel, Operands& operands) {
    Prepared p{index, std::move(kernel), {}, {}};
    p.buffers = operands.bind(*p.kernel);
    if (operands.problem().prepack_b) {
      p.packed_b = GuardedBuffer(p.kernel->packed_b_bytes());
      p.kernel->pack_b(operands.b(), p.packed_b.data());
      p.buffers.b = p.packed_b.data();
    }
    return p;
  }

  void check(size_t i) {
    announce(i);
    SweepRecord& r = records_[i];
    r.problem = to_string(job_.problem);
    r.config = to_string(job_.configs[i]);
    r.time = std::time(nullptr);
    try {
      Prepared p = bound(i, make(job_.problem, job_.configs[i]), operands_);
      operands_.reset_c();
      if (p.kernel->memory()) p.buffers = operands_.bind(*p.kernel);  // with C as it is now
      p.kernel->run(p.buffers);
      operands_.fetch(*p.kernel);
      const double sum_error = p.kernel->sum_error();
      if (!verifier_ || sum_error != verifier_error_) {
        verifier_.emplace(operands_, sample_of(operands_.view(), kCheckWork), sum_error);
        verifier_error_ = sum_error;
        ticks = 0;
      }
      const Verification v = verifier_->check();
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
    announce(job_.configs.size());
    anchor_operands_.emplace(*job_.anchor_problem, FillKind::uniform, 1, Operands::kTimingAlign);
    ready_.push_back(
        bound(job_.configs.size(), make(*job_.anchor_problem, job_.anchor_config), *anchor_operands_));
  }

  void time() {
    if (ready_.size() == (job_.anchor_problem ? 1 : 0)) return;
    // Where kernels work in memory of their own device, the operands are those of the last bind().
    std::vector<Repeated> work;
    const bool on_device = ready_[0].kernel->memory() != nullptr;
    Buffers shared = on_device ? operands_.bind(*ready_[0].kernel) : Buffers{};
    for (Prepared& p : ready_) {
      const bool anchor = p.index == job_.configs.size();
      const Buffers buffers = on_device && !anchor ? shared : p.buffers;
      work.push_back([&kernel = *p.kernel, buffers](int repeats) {
        for (int i = 0; i < repeats; ++i) kernel.run_unchecked(buffers);
        kernel.wait();
      });
    }
    MeasureOptions o = job_.measure;
    if (job_.anchor_problem) o.apart = ready_.size() - 1;  // a problem of its own, slower or faster
    o.before = [&](size_t i) { announce(ready_[i].index); };
    const double cpu = cpu_seconds();
    const auto start = Clock::now();
    const std::vector<Timing> times = measure(work, o);
    const double wall = std::chrono::duration<double>(Clock::now() - start).count();
    const double share = on_device || wall <= 0 ? 1 : std::min(1.0, (cpu_seconds() - cpu) / wall);
    const double anchor_us = job_.anchor_problem ? times.back().best_us : 0;
    for (size_t i = 0; i < ready_.size(); ++i) {
      if (ready_[i].index == job_.configs.size()) continue;
      SweepRecord& r = records_[ready_[i].index];
      r.samples = times[i].all;
      r.median_us = times[i].median_us;
      r.best_us = times[i].best_us;
      r.anchor_us = anchor_us;
      r.cpu_share = share;
    }
  }

  SweepJob job_;
  std::unique_ptr<Backend> backend_;
  KernelCache cache_;
  Operands operands_;
  std::optional<Verifier> verifier_;
  double verifier_error_ = 0;
  std::optional<Operands> anchor_operands_;
  std::vector<SweepRecord> records_;
  std::vector<Prepared> ready_;
};

}  // namespace

Json to_json(const SweepJob& job) {
  Json configs = Json::array();
  for (const KernelConfig& c : job.configs) configs.push(to_string(c));
  const MeasureOptions& m = job.measure;
  return Json::object({{"device", job.device},
                       {"threads", job.threads},
                       {"cache_dir", job.cache_dir},
                       {"problem", to_string(job.problem)},
                       {"configs", std::move(configs)},
                       {"anchor_problem", job.anchor_problem ? to_string(*job.anchor_problem) : ""},
                       {"anchor_config", to_string(job.anchor_config)},
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
  const auto config = [](const Json& text) {
    std::string why;
    auto c = KernelConfig::parse(text.as_string(), &why);
    if (!c) throw Error(ErrorCode::bad_input, "config '" + text.as_string() + "': " + why);
    return *c;
  };
  SweepJob job;
  job.device = j.at("device").as_string();
  job.threads = static_cast<int>(j.at("threads").as_int());
  job.cache_dir = j.at("cache_dir").as_string();
  job.problem = Problem::parse(j.at("problem").as_string());
  for (const Json& text : j.at("configs").items()) job.configs.push_back(config(text));
  if (const std::string& text = j.at("anchor_problem").as_string(); !text.empty()) {
    job.anchor_problem = Problem::parse(text);
    job.anchor_config = config(j.at("anchor_config"));
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

SweepReport parse_sweep_report(std::string_view output, size_t configs) {
  SweepReport report;
  report.records.resize(configs);
  for (std::string_view text : journal_records(output)) {
    const Json j = Json::parse(text, "sweep worker");
    if (const Json* at = j.find("at")) report.at = static_cast<size_t>(at->as_int());
    const Json* index = j.find("index");
    if (index && index->as_int() < std::ssize(report.records))
      report.records[static_cast<size_t>(index->as_int())] = sweep_record_from_json(j.at("record"));
  }
  return report;
}

int run_sweep_worker(std::string_view text) {
  SweepJob job = sweep_job_from_json(Json::parse(text, "sweep job"));
  start_watchdog(job.limit_s);
  Worker(std::move(job)).run();
  return 0;
}

}  // namespace tessera
