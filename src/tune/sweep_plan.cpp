#include "tune/sweep_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <queue>
#include <random>
#include <set>

#include "base/fs.h"
#include "base/text.h"
#include "codegen/render.h"
#include "core/family.h"
#include "core/gemm_view.h"
#include "model/learned.h"
#include "runtime/pack.h"
#include "runtime/selection.h"
#include "tessera/error.h"

namespace tessera {
namespace {

using Configs = std::vector<KernelConfig>;

constexpr int kPlanVersion = 1;
constexpr double kGuidedShare = 2.0 / 3;
constexpr double kHopeless = 5;  // times the best prediction: only time is lost on what is slower
constexpr size_t kKept = 6;      // of the best predicted, however slow

struct Chooser {
  const GemmView& view;
  const ArchSpec& arch;
  size_t count;
  const Model& model;
  std::mt19937_64 engine;

  // Fisher-Yates by the generator's own numbers: std::shuffle differs between libraries.
  void shuffle(Configs& all) {
    for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[engine() % i]);
  }
};

Configs every(Chooser&, Configs legal) { return legal; }

Configs evenly(Chooser& c, Configs legal) {
  c.shuffle(legal);
  legal.resize(std::min(legal.size(), c.count));
  return legal;
}

Configs stratified(Chooser& c, Configs legal) {
  c.shuffle(legal);
  std::map<std::array<int, 7>, Configs> strata;
  for (const KernelConfig& k : legal)
    strata[{k.family, k.tile_m, k.tile_n, k.block_m, k.inst_m, k.inst_n, k.inst_k}].push_back(k);
  Configs out;
  for (size_t depth = 0; out.size() < c.count && out.size() < legal.size(); ++depth) {
    for (const auto& [key, members] : strata) {
      if (depth < members.size() && out.size() < c.count) out.push_back(members[depth]);
    }
  }
  return out;
}

Configs guided(Chooser& c, Configs legal) {
  std::vector<double> us(legal.size());
  c.model.predict(c.view, c.arch, legal, us);
  std::vector<size_t> order(legal.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return us[x] < us[y]; });
  Configs best, rest;
  const auto wanted = static_cast<size_t>(static_cast<double>(c.count) * kGuidedShare + 0.5);
  for (size_t i = 0; i < order.size(); ++i) {
    if (i >= std::min(wanted, kKept) && us[order[i]] > us[order[0]] * kHopeless) break;
    (i < wanted ? best : rest).push_back(legal[order[i]]);
  }
  c.shuffle(rest);
  for (const KernelConfig& k : rest) {
    if (best.size() < c.count) best.push_back(k);
  }
  return best;
}

struct Strategy {
  std::string_view name;
  bool counted;  // takes ":N"
  Configs (*choose)(Chooser&, Configs);
};
constexpr Strategy kStrategies[] = {{"all", false, every},
                                    {"random", true, evenly},
                                    {"stratified", true, stratified},
                                    {"guided", true, guided}};

std::string strategy_forms() {
  std::string out;
  for (const Strategy& s : kStrategies)
    out += (out.empty() ? "" : " ") + std::string(s.name) + (s.counted ? ":N" : "");
  return out;
}

const Strategy& parse_strategy(const std::string& text, size_t* count) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const auto n = colon == text.npos ? std::nullopt : parse_int(std::string_view(text).substr(colon + 1));
  for (const Strategy& s : kStrategies) {
    if (s.name != name || s.counted != (n && *n > 0) || (!s.counted && colon != text.npos)) continue;
    *count = s.counted ? static_cast<size_t>(n.value_or(0)) : SIZE_MAX;
    return s;
  }
  throw Error(ErrorCode::bad_input, "unknown choice of candidates '" + text + "'",
              "one of " + strategy_forms());
}

// What a problem's next kernel is worth: less when it has some, and when others are thought better.
double worth(size_t place, size_t has) {
  constexpr double kHeadStart = 8;
  return kHeadStart / (kHeadStart + static_cast<double>(place)) / (1 + static_cast<double>(has));
}

void keep_kernels(SweepPlan& plan, const ArchSpec& arch, size_t most) {
  struct Use {
    size_t problem, place;
  };
  std::map<std::string, size_t> index_of;
  std::vector<std::vector<Use>> uses;       // of each kernel
  std::vector<std::vector<size_t>> needed;  // by problem: the kernel of each candidate
  for (size_t p = 0; p < plan.problems.size(); ++p) {
    const GemmView view = lower(plan.problems[p].problem);
    needed.emplace_back();
    for (size_t i = 0; i < plan.problems[p].configs.size(); ++i) {
      const std::string key = unit_key(render(view, plan.configs[plan.problems[p].configs[i]], arch));
      const size_t kernel = index_of.try_emplace(key, uses.size()).first->second;
      if (kernel == uses.size()) uses.emplace_back();
      uses[kernel].push_back({p, i});
      needed[p].push_back(kernel);
    }
  }
  std::vector<size_t> has(plan.problems.size());
  const auto value = [&](size_t kernel) {
    double sum = 0;
    for (const Use& u : uses[kernel]) sum += worth(u.place, has[u.problem]);
    return sum;
  };
  // A kernel's value only falls: the best is one whose value, worked out anew, is still the largest.
  std::priority_queue<std::pair<double, size_t>> queue;
  for (size_t k = 0; k < uses.size(); ++k) queue.emplace(value(k), k);
  std::vector<bool> kept(uses.size());
  for (size_t left = most; left > 0 && !queue.empty();) {
    const size_t kernel = queue.top().second;
    queue.pop();
    const double now = value(kernel);
    if (!queue.empty() && now < queue.top().first) {
      queue.emplace(now, kernel);
      continue;
    }
    kept[kernel] = true;
    for (const Use& u : uses[kernel]) ++has[u.problem];
    --left;
  }
  for (size_t p = 0; p < plan.problems.size(); ++p) {
    std::vector<size_t>& configs = plan.problems[p].configs;
    size_t i = 0;
    std::erase_if(configs, [&](size_t) { return !kept[needed[p][i++]]; });
  }
  std::erase_if(plan.problems, [](const SweepProblem& p) { return p.configs.empty(); });
}

}  // namespace

void check_strategy(const std::string& text) {
  size_t count = 0;
  parse_strategy(text, &count);
}

size_t SweepPlan::pairs() const {
  size_t n = 0;
  for (const SweepProblem& p : problems) n += p.configs.size();
  return n;
}

SweepPlan plan_sweep(const std::vector<SuiteRow>& rows, const std::string& device, int threads,
                     const ArchSpec& arch, const SweepCandidates& candidates,
                     std::vector<std::pair<std::string, std::string>>* skipped) {
  size_t count = 0;
  const Strategy& strategy = parse_strategy(candidates.strategy, &count);
  SweepPlan plan{.device = device, .threads = threads, .arch = arch.name, .configs = {}, .problems = {}};
  std::map<std::string, size_t> index_of;
  std::set<std::string> seen;
  for (const SuiteRow& row : rows) {
    const std::string text = to_string(row.problem);
    if (!seen.insert(text).second) continue;
    const GemmView view = lower(row.problem);
    Configs legal = configs_on(device, view, arch);
    if (!candidates.config.empty())
      std::erase_if(legal,
                    [&](const KernelConfig& c) { return !glob_match(candidates.config, to_string(c)); });
    if (legal.empty()) {
      if (skipped) skipped->emplace_back(text, why_nothing_is_legal(view, arch));
      continue;
    }
    Chooser chooser{view, arch, count, model_for(candidates.model, arch, row.problem),
                    std::mt19937_64(candidates.seed ^ hash(row.problem))};
    SweepProblem p{row.name, row.problem, {}};
    for (const KernelConfig& c : strategy.choose(chooser, std::move(legal))) {
      const auto [found, fresh] = index_of.try_emplace(to_string(c), plan.configs.size());
      if (fresh) plan.configs.push_back(c);
      p.configs.push_back(found->second);
    }
    plan.problems.push_back(std::move(p));
  }
  if (plan.problems.empty())
    throw Error(ErrorCode::bad_input, "nothing to sweep: no problem has a candidate");
  if (candidates.kernels) keep_kernels(plan, arch, candidates.kernels);
  return plan;
}

Json to_json(const SweepPlan& plan) {
  Json configs = Json::array(), problems = Json::array();
  for (const KernelConfig& c : plan.configs) configs.push(to_string(c));
  for (const SweepProblem& p : plan.problems) {
    Json indices = Json::array();
    for (size_t i : p.configs) indices.push(static_cast<int64_t>(i));
    problems.push(
        Json::object({{"name", p.name}, {"problem", to_string(p.problem)}, {"configs", std::move(indices)}}));
  }
  return Json::object({{"version", kPlanVersion},
                       {"device", plan.device},
                       {"threads", plan.threads},
                       {"arch", plan.arch},
                       {"configs", std::move(configs)},
                       {"problems", std::move(problems)}});
}

SweepPlan sweep_plan_from_json(const Json& j) {
  if (j.at("version").as_int() != kPlanVersion) {
    throw Error(ErrorCode::bad_input,
                "a sweep plan of version " + std::to_string(j.at("version").as_int()) + ", not " +
                    std::to_string(kPlanVersion),
                "plan it again with this program");
  }
  SweepPlan plan{.device = j.at("device").as_string(),
                 .threads = static_cast<int>(j.at("threads").as_int()),
                 .arch = j.at("arch").as_string(),
                 .configs = {},
                 .problems = {}};
  for (const Json& text : j.at("configs").items())
    plan.configs.push_back(KernelConfig::read(text.as_string()));
  for (const Json& row : j.at("problems").items()) {
    SweepProblem p{row.at("name").as_string(), Problem::parse(row.at("problem").as_string()), {}};
    for (const Json& i : row.at("configs").items()) {
      if (i.as_int() < 0 || i.as_int() >= std::ssize(plan.configs))
        throw Error(ErrorCode::bad_input, "sweep plan: no config " + std::to_string(i.as_int()));
      p.configs.push_back(static_cast<size_t>(i.as_int()));
    }
    plan.problems.push_back(std::move(p));
  }
  return plan;
}

bool create_sweep_plan(const SweepPlan& plan, const std::string& directory) {
  make_directories(directory);
  return create_file_whole(directory + "/plan.json", to_json(plan).dump());
}

void write_sweep_plan(const SweepPlan& plan, const std::string& directory) {
  if (!create_sweep_plan(plan, directory)) {
    throw Error(ErrorCode::io, "'" + directory + "' has a plan already",
                "name another directory, or go on with it: tessera sweep run " + directory);
  }
}

SweepPlan read_sweep_plan(const std::string& directory) {
  const std::string path = directory + "/plan.json";
  return sweep_plan_from_json(Json::parse(read_file(path), path));
}

SweepPlan merge_plans(const std::vector<SweepPlan>& plans) {
  SweepPlan out{.device = plans.at(0).device,
                .threads = plans[0].threads,
                .arch = plans[0].arch,
                .configs = {},
                .problems = {}};
  std::map<std::string, size_t> index_of, problem_of;
  for (const SweepPlan& plan : plans) {
    if (plan.arch != out.arch || plan.device != out.device || plan.threads != out.threads) {
      throw Error(ErrorCode::bad_input,
                  "sweeps of different devices: " + out.device + " (" + out.arch + "), " + plan.device +
                      " (" + plan.arch + ")",
                  "merge those of one device; a database holds several");
    }
    for (const SweepProblem& p : plan.problems) {
      const auto [at, fresh] = problem_of.try_emplace(to_string(p.problem), out.problems.size());
      if (fresh) out.problems.push_back({p.name, p.problem, {}});
      auto& configs = out.problems[at->second].configs;
      for (size_t c : p.configs) {
        const auto [found, added] = index_of.try_emplace(to_string(plan.configs[c]), out.configs.size());
        if (added) out.configs.push_back(plan.configs[c]);
        if (std::find(configs.begin(), configs.end(), found->second) == configs.end())
          configs.push_back(found->second);
      }
    }
  }
  return out;
}

}  // namespace tessera
