#include "tune/training_data.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>

#include "base/embedded.h"
#include "base/hash.h"
#include "base/text.h"
#include "model/learned.h"
#include "space/rules.h"
#include "tessera/error.h"
#include "tune/suite.h"

namespace tessera {
namespace {

constexpr const char* kSplits = "models/splits.json";
constexpr std::array<std::string_view, 3> kFolds = {"train", "valid", "test"};
constexpr uint64_t kValidOneIn = 8;

// A group whose anchor was slower than the quickest ones by more than this shared its core's units with
// others. The quickest one alone may have met a moment of a clock that no other did.
constexpr double kShared = 1.3;
constexpr size_t kQuickestOneIn = 20;

// Seconds within which measurements of a configuration are of the same kernel: the quickest of them counts.
constexpr int64_t kOneSession = 6 * 3600;

// The problem without what a suite's row leaves open.
std::string shape_text(Problem p) {
  p.a = p.b = p.out = p.d = DType::f32;
  p.prepack_b = false;
  p.epilogue = {};
  p.alpha = 1;
  p.beta = 0;
  return to_string(p);
}

// Family by shape, of the suite that has the operation's name.
std::map<std::string, std::string> suite_families(Op op) {
  std::map<std::string, std::string> out;
  for (const SuiteRow& row : embedded_suite(std::string(to_string(op))))
    out.emplace(shape_text(row.problem), row.name.substr(0, row.name.find('.')));
  return out;
}

struct Splits {
  std::vector<std::string> valid, test;  // globs over families
};

const Splits& splits() {
  static const Splits read = [] {
    const EmbeddedFile* file = find_embedded_file(kSplits);
    if (!file) throw Error(ErrorCode::internal, std::string(kSplits) + " is not in this program");
    const Json j = Json::parse(file->text, kSplits);
    const auto globs = [&](const char* key) {
      std::vector<std::string> out;
      for (const Json& g : j.at(key).items()) out.push_back(g.as_string());
      return out;
    };
    return Splits{globs("valid"), globs("test")};
  }();
  return read;
}

bool any_matches(const std::vector<std::string>& globs, const std::string& text) {
  return std::any_of(globs.begin(), globs.end(), [&](const auto& g) { return glob_match(g, text); });
}

// As TrainingData::hash takes them.
std::string times_text(const std::vector<KernelConfig>& configs, const std::vector<double>& us) {
  std::string out;
  for (size_t i = 0; i < configs.size(); ++i) out += to_string(configs[i]) + ' ' + number_text(us[i]) + '\n';
  return out;
}

}  // namespace

std::span<const std::string_view> fold_names() { return kFolds; }

std::string_view to_string(Fold f) { return kFolds[static_cast<size_t>(f)]; }

Fold parse_fold(std::string_view text) {
  const auto* found = std::find(std::begin(kFolds), std::end(kFolds), text);
  if (found == std::end(kFolds))
    throw Error(ErrorCode::bad_input, "unknown fold '" + std::string(text) + "'",
                "one of " + join(kFolds, " "));
  return static_cast<Fold>(found - std::begin(kFolds));
}

std::string network_family(const Problem& p) {
  static std::mutex mutex;
  static std::map<Op, std::map<std::string, std::string>> known;
  std::lock_guard lock(mutex);
  auto found = known.find(p.op);
  if (found == known.end()) found = known.emplace(p.op, suite_families(p.op)).first;
  const auto family = found->second.find(shape_text(p));
  return family == found->second.end() ? "" : family->second;
}

Fold fold_of(const Problem& p) {
  const std::string family = network_family(p);
  if (family.empty()) {
    const uint64_t drawn = std::stoull(content_hash(shape_text(p)).substr(0, 8), nullptr, 16);
    return drawn % kValidOneIn == 0 ? Fold::valid : Fold::train;
  }
  if (any_matches(splits().test, family)) return Fold::test;
  return any_matches(splits().valid, family) ? Fold::valid : Fold::train;
}

void TrainingData::add(const Problem& p, std::vector<KernelConfig> configs, std::vector<double> us) {
  MeasuredProblem m{.problem = p, .view = lower(p), .fold = fold_of(p)};
  if (units_at_work(arch, m.view) != arch.compute_units) return;  // the model of one serves it
  for (size_t i = 0; i < configs.size(); ++i) {
    if (rejected_by(m.view, configs[i], arch)) continue;
    m.configs.push_back(configs[i]);
    m.us.push_back(us[i]);
  }
  if (m.configs.size() < configs.size()) m.measured = times_text(configs, us);
  if (m.configs.size() < std::min<size_t>(configs.size(), 2)) return;
  m.best_us = *std::min_element(m.us.begin(), m.us.end());
  problems.push_back(std::move(m));
  const std::string text = types_text(p);
  const auto place = std::lower_bound(types.begin(), types.end(), text);
  if (place == types.end() || *place != text) types.insert(place, text);
}

size_t TrainingData::rows(Fold f) const {
  size_t n = 0;
  for (const MeasuredProblem& p : problems) n += p.fold == f ? p.configs.size() : 0;
  return n;
}

size_t TrainingData::count(Fold f) const {
  return static_cast<size_t>(
      std::count_if(problems.begin(), problems.end(), [&](const auto& p) { return p.fold == f; }));
}

std::string TrainingData::hash() const {
  std::string text = arch.name + ' ' + std::to_string(arch.compute_units) + ' ' + operation + '\n';
  for (const MeasuredProblem& p : problems) {
    text += to_string(p.problem) + ' ' + std::string(to_string(p.fold)) + '\n';
    text += p.measured.empty() ? times_text(p.configs, p.us) : p.measured;
  }
  return content_hash(text);
}

TrainingData training_data(const Database& db, const std::string& arch, const std::string& operation,
                           int units) {
  struct Timed {
    int64_t time;
    double us;  // 0: not right
    double anchor_us;
  };
  std::map<std::string, std::vector<double>> anchors;  // by types
  std::map<std::string, std::map<std::string, std::vector<Timed>>> problems;
  std::set<int> seen;
  std::set<std::string> processors;
  db.each({.arch = arch, .problem = operation + " *", .config = {}, .outcome = {}},
          [&](const Measurement& m) {
            if (units && m.device.units != units) return;
            seen.insert(m.device.units);
            processors.insert(m.device.processor);
            const SweepRecord& r = m.record;
            // Disturbances only add: the least sample is nearest to what the kernel takes.
            const double us = r.outcome == SweepOutcome::ok ? r.best_us : 0;
            problems[r.problem][r.config].push_back({r.time, us, r.anchor_us});
            if (r.anchor_us > 0) anchors[types_text(Problem::parse(r.problem))].push_back(r.anchor_us);
          });
  if (problems.empty()) {
    throw Error(ErrorCode::bad_input, "no measurement of " + operation + " on " + arch + " in " + db.path(),
                "measure with tessera sweep, and import that");
  }
  if (seen.size() > 1) {
    std::string all;
    for (int u : seen) all += (all.empty() ? "" : " ") + std::to_string(u);
    throw Error(ErrorCode::bad_input, "measurements with several numbers of units: " + all,
                "choose one with --units");
  }
  std::map<std::string, double> quickest;  // anchor, by types
  for (auto& [types, us] : anchors) {
    const auto at = us.begin() + static_cast<ptrdiff_t>(us.size() / kQuickestOneIn);
    std::nth_element(us.begin(), at, us.end());
    quickest[types] = *at;
  }
  TrainingData out{find_arch(arch), operation, {}, {}};
  out.arch.compute_units = *seen.begin();
  out.processor = join({processors.begin(), processors.end()}, ", ");
  int64_t slowed = 0;  // samples left out
  for (const auto& [text, measured] : problems) {
    const Problem problem = Problem::parse(text);
    const auto least = quickest.find(types_text(problem));
    std::vector<KernelConfig> configs;
    std::vector<double> us;
    for (const auto& [config, samples] : measured) {
      const auto last = std::max_element(samples.begin(), samples.end(),
                                         [](const Timed& x, const Timed& y) { return x.time < y.time; });
      if (last->us <= 0) continue;
      double least_us = 0;
      for (const Timed& x : samples) {
        const bool shared = least != quickest.end() && x.anchor_us > least->second * kShared;
        slowed += shared;
        if (shared || x.us <= 0 || x.time < last->time - kOneSession) continue;
        least_us = least_us > 0 ? std::min(least_us, x.us) : x.us;
      }
      std::string why;
      const auto c = KernelConfig::parse(config, &why);
      if (!c || least_us <= 0) continue;
      configs.push_back(*c);
      us.push_back(least_us);
    }
    if (configs.size() >= 2) out.add(problem, std::move(configs), std::move(us));
  }
  if (out.problems.empty()) {
    throw Error(
        ErrorCode::bad_input,
        "of no problem of " + operation + " two configurations were measured and ran right, in " + db.path() +
            (slowed
                 ? "; left out: " + std::to_string(slowed) + " taken while something else slowed the machine"
                 : ""),
        slowed ? "measure again when less runs beside it"
               : "let tessera sweep plan take more: --candidates guided:16");
  }
  return out;
}

}  // namespace tessera
