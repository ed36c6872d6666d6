// Dispatcher: a problem in, the fastest legal kernel out, compiled and cached on first use.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/json.h"
#include "tessera/kernel.h"
#include "tessera/problem.h"

namespace tessera {

class Registry;

enum class Policy : int {
  model,       // best predicted; never looks at a clock
  model_topk,  // compile and time the k best predicted once, keep the fastest (DispatcherOptions::background)
  tuned,       // only measured decisions; Error(unsupported) for a problem never tuned
  explicit_config,  // DispatcherOptions::config
  first_legal,      // the first legal candidate in enumeration order
  callback          // DispatcherOptions::rank
};
std::string_view to_string(Policy p);
Policy parse_policy(std::string_view text);  // Error(bad_input) with the known names
std::vector<std::string> policy_names();     // in the order of Policy

struct Candidate {
  KernelConfig config;
  double predicted_us;
};

// Returns indices into `candidates`, best first; the first is used. An empty answer is an error.
using RankCallback =
    std::function<std::vector<size_t>(const Problem&, std::span<const Candidate> candidates)>;

// Decisions made by measurement (tune_db.h reads and keeps stored ones). Thread-safe.
class Decisions {
 public:
  virtual ~Decisions() = default;
  // For this problem on that architecture with so many cores or compute units.
  virtual std::optional<Choice> find(const std::string& arch, int units, const Problem& problem) const = 0;
  // What policy model_topk measured to be the fastest, for later processes; choice.predicted_us is the time
  // measured. Called on a dispatcher's own thread where it has one. Must not throw.
  virtual void keep(const std::string& arch, int units, const Problem& problem, const Choice& choice) const;
};

inline constexpr int kMostRaced = 8;

// Every member has an initialiser: {.threads = 1} is a whole set of options, without a warning.
struct DispatcherOptions {
  std::string device = "cpu";  // "cpu", "cpu:N" threads, "cuda", "cuda:N", "null:ARCH" (only plans)
  int threads = 0;             // CPU: 0 = all cores, or as many as the device says
  Policy policy = Policy::model;
  int top_k = 0;  // of model_topk; 0: those that the model's error band holds, kMostRaced at most
  // model_topk: the first get() of a problem answers with the best predicted as soon as that is compiled; the
  // others are compiled and timed on a thread of the dispatcher's own when no get() is at work, and from then
  // on get() gives the fastest. False, and for problems with prepack=b (whose packed B is of one kernel's
  // order): the first get() waits.
  bool background = true;
  std::string config{};                  // of explicit_config alone: a config's text form
  RankCallback rank{};                   // of callback alone
  std::string model{};                   // what predicts: "" = the shipped one, "analytic", or a model file
  std::string cache_dir{};               // "": TESSERA_CACHE_DIR or the user's cache directory
  std::vector<std::string> packs{};      // prebuilt kernels to look in before compiling
  std::shared_ptr<Registry> registry{};  // the kernels to choose from; null: everything legal
  // Asked before policies model and model_topk, and what policy tuned goes by. A stored configuration that is
  // no longer legal, or not the registry's, counts as absent. Null: none.
  std::shared_ptr<const Decisions> decisions{};
};

struct Explanation {
  struct Rejected {
    KernelConfig config;
    std::string rule, reason;
  };
  std::vector<Candidate> candidates;  // in the policy's order; none where `why_none` says why
  std::string why_none;
  std::vector<Rejected> rejected;  // in enumeration order; filled on request
  // What select() gives, under model_topk before it has timed anything. Where it need not rank all of very
  // many, not always candidates[0].
  Choice choice;
  double select_us = 0;  // wall time of making that choice
  std::string model;     // what predicted
};

// Whether a config may run a problem, and the nearest one that may.
struct Correction {
  KernelConfig config;
  std::string rule, reason;             // why it may not; empty when it is legal
  std::optional<KernelConfig> nearest;  // of the same family; none when the family has no legal config
  std::vector<std::string> changes;     // "tile_n: 48 -> 64 (rule): reason"
  bool legal() const { return rule.empty(); }
};

// How the kernel of the last get() of a problem came to be.
struct BuildInfo {
  enum class From : int { memory, disk, pack, compiled } from = From::memory;
  double select_us = 0;  // enumeration and ranking
  double build_ms = 0;   // source to loaded kernel; the compiler's time when it ran
};
std::string_view to_string(BuildInfo::From from);

// Thread-safe. Several dispatchers may live side by side and share nothing but files. A child of fork() may
// use its parent's only while no kernel ran on several threads and nothing was left to time in the
// background: see Kernel::run.
class Dispatcher {
 public:
  // Error(bad_input) for options that contradict each other or do not parse, a config or a rank function that
  // the policy does not ask for among them; Error(io) or Error(corrupt) for a model or a pack that does not
  // serve; Error(unsupported) where the device is not there.
  explicit Dispatcher(DispatcherOptions options = {});
  ~Dispatcher();

  // The kernel for `problem`, valid as long as the dispatcher. A repeated call is a lock-free look-up without
  // allocation, and gives the same kernel until a faster one was found in the background. Errors: unsupported
  // (nothing legal; the text says why), compile_failed, bad_input.
  const Kernel& get(const Problem& problem, BuildInfo* info = nullptr);

  void run(const Problem& problem, const Buffers& buffers) { get(problem).run(buffers); }

  // Selects without compiling, but for what get() would wait to time: policy model_topk without `background`
  // or with prepack=b. Errors: as of get().
  Choice select(const Problem& problem, double* select_us = nullptr);

  // Compiles nothing. Where nothing can be chosen (no configuration is legal, the policy or the registry has
  // none) that is no error: `candidates` is empty and `why_none` says why, with or without the rejected ones.
  // Error(bad_input) for a problem that is not valid, or a rank function's answer.
  Explanation explain(const Problem& problem, bool with_rejected = false);

  // Holds `config` to the rules, whatever the policy. Error(bad_input) for a problem that is not valid.
  Correction correct(const Problem& problem, const KernelConfig& config);

  // The generated unit for the choice, under model_topk before it has timed anything: short form (one
  // include) or, with `whole`, as it is compiled. Errors: unsupported (nothing legal, or a family that is
  // planned only, as those of AMD's GPUs), bad_input.
  std::string emit(const Problem& problem, bool whole = false);

  // Compiles what the problems need, so many at a time (0: as many as there are cores). Calls progress(done,
  // total, text) from one thread at a time; what it throws ends the work and comes out. Returns one error
  // text per problem, "" where it went well. Error(bad_input) when `jobs` is negative.
  std::vector<std::string> build(
      std::span<const Problem> problems, int jobs,
      const std::function<void(size_t, size_t, const std::string&)>& progress = {});

  // Problems whose kernels are still to be timed in the background, and the wait for them. A kernel whose
  // choice().source is ChoiceSource::measured is final. Destroying the dispatcher ends such work at once, an
  // interrupt (tsr_interrupt of tessera.h) leaves the best predicted in place.
  size_t refining() const;
  void settle() const;

  const DispatcherOptions& options() const;
  Json describe() const;  // device, architecture, compiler, cache directory

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
