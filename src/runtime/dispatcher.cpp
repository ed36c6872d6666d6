#include "tessera/dispatcher.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <thread>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/parallel.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "model/learned.h"
#include "runtime/background.h"
#include "runtime/kernel_cache.h"
#include "runtime/modules.h"
#include "runtime/pack_decisions.h"
#include "runtime/plan_table.h"
#include "runtime/race.h"
#include "runtime/selection.h"
#include "space/rules.h"
#include "space/space.h"
#include "tessera/error.h"
#include "tessera/registry.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 4> kFromNames = {"memory", "disk", "pack", "compiled"};

constexpr double kRaceBudgetMs = 3;

// In the background a race that was disturbed is run again, so often at most and after such a pause: what
// else runs would decide it.
constexpr int kRaces = 5;
constexpr std::chrono::milliseconds kRacePause{50}, kIdlePoll{2};

double thread_cpu_us() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

// Counts who is at work.
class AtWork {
 public:
  explicit AtWork(std::atomic<int>& count) : count_(count) { ++count_; }
  ~AtWork() { --count_; }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  std::atomic<int>& count_;
};

DispatcherOptions checked(DispatcherOptions o) {
  check_options(o);
  return o;
}

Problem validated(Problem p) {
  p.validate();
  return p;
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) { return e.what(); }
}

// Names the problem in an error that does not know it.
template <class F>
decltype(auto) on_problem(const Problem& p, F&& body) {
  try {
    return body();
  } catch (const Error& e) { throw e.on(to_string(p)); }
}

}  // namespace

std::string_view to_string(BuildInfo::From from) { return kFromNames[static_cast<size_t>(from)]; }

struct Dispatcher::Impl {
  explicit Impl(DispatcherOptions o)
      : options(checked(std::move(o))),
        backend(make_backend(options.device, options.threads)),
        arch(backend->arch()),
        cache({.directory = options.cache_dir, .packs = options.packs}) {
    options.decisions = with_packs(std::move(options.decisions), cache.packs());
  }

  DispatcherOptions options;
  std::unique_ptr<Backend> backend;
  const ArchSpec& arch;
  KernelCache cache;
  PlanTable plans;
  Modules modules{*backend, cache};
  std::atomic<int> getting{0};
  Background background;  // last: it ends before what its jobs use

  SelectionInput input(const Problem& p, const GemmView& v) const { return {p, v, arch, options}; }

  // So many candidates that a choice looks at.
  size_t looked_at() const {
    if (options.policy != Policy::model_topk) return 1;
    return static_cast<size_t>(options.top_k > 0 ? options.top_k : kMostRaced);
  }

  std::unique_ptr<Kernel> make(const Problem& p, const GemmView& v, const Choice& choice, BuildInfo* info) {
    return backend->prepare(modules.get(render(v, choice.config, arch), info), p, choice);
  }

  // Without a compiler only what the cache or a pack holds can run: the best of those, as many as are looked
  // at, said aloud by `source`.
  void keep_available(const GemmView& v, std::vector<Candidate>& candidates, BuildInfo* info) {
    if (!backend->compiler_identity().empty()) return;
    std::vector<Candidate> found;
    for (const Candidate& c : candidates) {
      if (modules.available(render(v, c.config, arch), info)) found.push_back(c);
      if (found.size() == looked_at()) break;
    }
    if (!found.empty()) candidates = std::move(found);  // else get_or_build says what is missing
  }

  // The choice before anything is timed; where timing is to decide, `contenders` are what it is between.
  Choice predicted(const Problem& p, const GemmView& v, BuildInfo* info, std::vector<Candidate>& contenders) {
    SelectionInput in = input(p, v);
    // Without a compiler any of them may be the best that can run.
    in.most = backend->compiler_identity().empty() ? std::numeric_limits<size_t>::max() : looked_at();
    const auto start = Clock::now();
    ChoiceSource source;
    std::vector<Candidate> candidates = ranked_candidates(in, &source);
    if (info) info->select_us = us_since(start);
    return first_of(p, v, std::move(candidates), source, info, contenders);
  }

  // The same of candidates in their order, of which `source` says where the first comes from.
  Choice first_of(const Problem& p, const GemmView& v, std::vector<Candidate> candidates, ChoiceSource source,
                  BuildInfo* info, std::vector<Candidate>& contenders) {
    const KernelConfig first = candidates[0].config;
    keep_available(v, candidates, info);
    if (candidates[0].config != first) source = choice_source(options.policy);
    Choice choice{candidates[0].config, candidates[0].predicted_us, source};
    contenders.clear();
    if (options.policy != Policy::model_topk || source == ChoiceSource::tuned) return choice;
    candidates.resize(raced(options, model_for(options.model, arch, p).band(), candidates));
    if (candidates.size() == 1) return choice;  // final, as if measured: no other can be faster
    contenders = std::move(candidates);
    choice.source = ChoiceSource::model;
    return choice;
  }

  // With `later`, what is left to time in the background goes there.
  Choice choose(const Problem& p, const GemmView& v, BuildInfo* info,
                std::vector<Candidate>* later = nullptr) {
    std::vector<Candidate> contenders;
    const Choice choice = predicted(p, v, info, contenders);
    if (contenders.empty()) return choice;
    if (!later || p.prepack_b) return fastest_of(p, v, contenders, info);
    *later = std::move(contenders);
    return choice;
  }

  // All compiled at once. Those that fail are left out; where none is made, the first one's error comes out.
  std::vector<std::unique_ptr<Kernel>> made_of(const Problem& p, const GemmView& v,
                                               std::span<const Candidate> wanted, BuildInfo* info) {
    const size_t count = wanted.size();
    std::vector<std::unique_ptr<Kernel>> kernels(count);
    std::vector<BuildInfo> infos(count);
    std::vector<std::exception_ptr> errors(count);
    in_parallel(count, static_cast<int>(count), [&](size_t i) {
      const InterruptedBy scope(background.stop());
      try {
        kernels[i] =
            make(p, v, {wanted[i].config, wanted[i].predicted_us, ChoiceSource::measured}, &infos[i]);
      } catch (...) { errors[i] = std::current_exception(); }
    });
    throw_if_interrupted();
    for (size_t i = 0; info && i < count; ++i) {
      info->from = std::max(info->from, infos[i].from);
      info->build_ms = std::max(info->build_ms, infos[i].build_ms);
    }
    std::erase(kernels, nullptr);
    if (kernels.empty()) std::rethrow_exception(errors[0]);
    for (size_t i = 0; i < count; ++i) {
      if (errors[i]) log(LogLevel::info, "not timed: " + text_of(errors[i]));
    }
    return kernels;
  }

  static size_t fastest(const std::vector<double>& us) {
    return static_cast<size_t>(std::min_element(us.begin(), us.end()) - us.begin());
  }

  Choice fastest_of(const Problem& p, const GemmView& v, std::span<const Candidate> top, BuildInfo* info) {
    auto kernels = made_of(p, v, top, info);
    if (kernels.size() == 1) return kernels[0]->choice();
    return winner(p, kernels, race(kernels, kRaceBudgetMs))->choice();
  }

  // The fastest, which is written down.
  std::unique_ptr<Kernel>& winner(const Problem& p, std::span<std::unique_ptr<Kernel>> kernels,
                                  const std::vector<double>& us) const {
    const size_t best = fastest(us);
    if (options.decisions) {
      Choice measured = kernels[best]->choice();
      measured.predicted_us = us[best];
      options.decisions->keep(arch.name, arch.compute_units, p, measured);
    }
    return kernels[best];
  }

  // When no get() is at work, and again when others had the core.
  std::vector<double> quiet_race(std::span<const std::unique_ptr<Kernel>> kernels) {
    for (int i = 1;; ++i) {
      while (getting > 0) {
        throw_if_interrupted();
        std::this_thread::sleep_for(kIdlePoll);
      }
      const double cpu = thread_cpu_us();
      const auto start = Clock::now();
      std::vector<double> us = race(kernels, kRaceBudgetMs);
      const bool waits_for_device = kernels[0]->memory() != nullptr;
      if (waits_for_device || i == kRaces || thread_cpu_us() - cpu >= kQuietShare * us_since(start))
        return us;
      std::this_thread::sleep_for(kRacePause);
    }
  }

  // The fastest of `top` takes its problem's place. Those that do not compile are left out.
  void refine(const Problem& p, const std::vector<Candidate>& top) {
    const GemmView v = lower(p);
    auto kernels = made_of(p, v, top, nullptr);
    std::unique_ptr<Kernel>& best =
        kernels.size() == 1 ? kernels[0] : winner(p, kernels, quiet_race(kernels));
    log(LogLevel::debug, "timed in the background: problem=\"" + to_string(p) + "\" config=\"" +
                             to_string(best->choice().config) + "\"");
    plans.replace(std::move(best));
  }
};

void Decisions::keep(const std::string&, int, const Problem&, const Choice&) const {}

Dispatcher::Dispatcher(DispatcherOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Dispatcher::~Dispatcher() = default;

const Kernel& Dispatcher::get(const Problem& problem, BuildInfo* info) {
  if (info) *info = {};
  if (const Kernel* hit = impl_->plans.find(problem)) return *hit;
  Problem simple = problem;
  simple.simplify_strides();
  if (const Kernel* hit = impl_->plans.find(simple)) return *hit;
  return on_problem(problem, [&]() -> const Kernel& {
    const Problem p = validated(problem);
    const GemmView view = lower(p);
    const AtWork at_work(impl_->getting);
    std::vector<Candidate> later;
    const Choice choice = impl_->choose(p, view, info, impl_->options.background ? &later : nullptr);
    std::unique_ptr<Kernel> made = impl_->make(p, view, choice, info);
    const Kernel* const mine = made.get();
    const Kernel& kernel = impl_->plans.insert(std::move(made));
    if (!later.empty() && &kernel == mine)
      impl_->background.add([impl = impl_.get(), p, top = std::move(later)] { impl->refine(p, top); });
    return kernel;
  });
}

Choice Dispatcher::select(const Problem& problem, double* select_us) {
  return on_problem(problem, [&] {
    const Problem p = validated(problem);
    BuildInfo info;
    std::vector<Candidate> later;
    Choice choice = impl_->choose(p, lower(p), &info, impl_->options.background ? &later : nullptr);
    if (select_us) *select_us = info.select_us;
    return choice;
  });
}

Explanation Dispatcher::explain(const Problem& problem, bool with_rejected) {
  return on_problem(problem, [&] {
    const Problem p = validated(problem);
    const GemmView view = lower(p);
    Explanation out;
    if (with_rejected) {
      for_each_candidate(view, impl_->arch, [&](const KernelConfig& c) {
        const Rule* rule = rejected_by(view, c, impl_->arch);
        if (rule) out.rejected.push_back({c, std::string(rule->name), std::string(rule->reason)});
      });
    }
    SelectionInput in = impl_->input(p, view);
    ChoiceSource source;
    const auto start = Clock::now();
    try {
      out.candidates = ranked_candidates(in, &source);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::unsupported) throw;
      out.why_none = e.what_happened();
      return out;
    }
    BuildInfo info{.select_us = us_since(start)};
    std::vector<Candidate> contenders;
    in.most = impl_->looked_at();
    out.choice = ranks_a_part(in) ? impl_->predicted(p, view, &info, contenders)
                                  : impl_->first_of(p, view, out.candidates, source, &info, contenders);
    out.select_us = info.select_us;
    out.model = model_for(impl_->options.model, impl_->arch, p).name();
    return out;
  });
}

Correction Dispatcher::correct(const Problem& problem, const KernelConfig& config) {
  return on_problem(problem, [&] {
    const GemmView view = lower(validated(problem));
    Correction out{.config = config};
    if (const Rule* rule = rejected_by(view, config, impl_->arch)) {
      out.rule = rule->name;
      out.reason = rule->reason;
    }
    Suggestion s = suggest(view, config, impl_->arch);
    if (!s.config.empty()) out.nearest = s.config[0];
    out.changes = std::move(s.changes);
    return out;
  });
}

std::string Dispatcher::emit(const Problem& problem, bool whole) {
  return on_problem(problem, [&] {
    const Problem p = validated(problem);
    const GemmView view = lower(p);
    std::vector<Candidate> contenders;
    const Source source = render(view, impl_->predicted(p, view, nullptr, contenders).config, impl_->arch);
    return whole ? source.unit : source.text;
  });
}

std::vector<std::string> Dispatcher::build(
    std::span<const Problem> problems, int jobs,
    const std::function<void(size_t, size_t, const std::string&)>& progress) {
  if (jobs < 0)
    throw Error(ErrorCode::bad_input, std::to_string(jobs) + " jobs", "0 is as many as there are cores");
  std::vector<std::string> errors(problems.size());
  size_t done = 0;
  std::mutex progress_mutex;
  in_parallel(problems.size(), jobs, [&](size_t i) {
    try {
      throw_if_interrupted();
      get(problems[i]);
    } catch (const std::exception& e) { errors[i] = e.what(); }
    std::lock_guard lock(progress_mutex);
    ++done;
    if (progress) progress(done, problems.size(), to_string(problems[i]));
  });
  return errors;
}

size_t Dispatcher::refining() const { return impl_->background.pending(); }
void Dispatcher::settle() const { impl_->background.settle(); }

const DispatcherOptions& Dispatcher::options() const { return impl_->options; }

Json Dispatcher::describe() const {
  return Json::object({{"device", impl_->options.device},
                       {"arch", impl_->arch.name},
                       {"threads", impl_->arch.compute_units},
                       {"compiler", impl_->backend->compiler_identity()},
                       {"cache_dir", impl_->cache.directory()},
                       {"refining", static_cast<int64_t>(refining())}});
}

}  // namespace tessera
