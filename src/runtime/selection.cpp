#include "runtime/selection.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "backend/backend.h"
#include "base/fs.h"
#include "base/text.h"
#include "core/family.h"
#include "model/learned.h"
#include "space/rules.h"
#include "space/space.h"
#include "tessera/error.h"
#include "tessera/registry.h"

namespace tessera {
namespace {

using Order = std::vector<size_t>;

// Legal configurations and what the model says of them, side by side: configurations are long, and there are
// thousands of them, so they are not moved until it is known which are wanted.
struct Legal {
  std::vector<KernelConfig> configs;
  std::vector<double> us;

  Candidate operator[](size_t i) const { return {configs[i], us[i]}; }
};

// The best `wanted`, or all.
Order best_of(const Legal& legal, size_t wanted) {
  const size_t count = legal.us.size(), most = std::min(wanted, count);
  if (most == 1)
    return {static_cast<size_t>(std::min_element(legal.us.begin(), legal.us.end()) - legal.us.begin())};
  std::vector<std::pair<double, size_t>> times(count);
  for (size_t i = 0; i < count; ++i) times[i] = {legal.us[i], i};
  std::partial_sort(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(most), times.end());
  Order order(most);
  for (size_t i = 0; i < most; ++i) order[i] = times[i].second;
  return order;
}

// As many as are wanted; all with a registry, whose priorities are looked at later and can move any of them
// forward.
Order by_prediction(const SelectionInput& in, const Legal& legal) {
  return best_of(legal, in.options.registry ? legal.us.size() : in.most);
}

Order as_enumerated(const SelectionInput&, const Legal& legal) {
  Order order(legal.configs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

Order by_callback(const SelectionInput& in, const Legal& legal) {
  std::vector<Candidate> candidates(legal.configs.size());
  for (size_t i = 0; i < candidates.size(); ++i) candidates[i] = legal[i];
  Order order = in.options.rank(in.problem, candidates);
  if (order.empty()) {
    throw Error(ErrorCode::unsupported,
                "the rank callback chose none of " + std::to_string(candidates.size()) + " candidates");
  }
  for (size_t i : order) {
    if (i >= candidates.size())
      throw Error(ErrorCode::bad_input, "the rank callback returned an index out of range");
  }
  return order;
}

std::optional<Choice> stored_decision(const SelectionInput& in) {
  const Decisions* decisions = in.options.decisions.get();
  return decisions ? decisions->find(in.arch.name, in.arch.compute_units, in.problem) : std::nullopt;
}

// Asked only where no decision is stored that is legal.
Order by_measurement(const SelectionInput& in, const Legal&) {
  if (const auto stored = stored_decision(in)) {
    const Rule* rule = rejected_by(in.view, stored->config, in.arch);
    throw Error(ErrorCode::unsupported,
                "policy 'tuned': the stored configuration '" + to_string(stored->config) + "' is " +
                    (rule ? "refused by " + std::string(rule->name) + ": " + std::string(rule->reason)
                          : "none that the registry declares"),
                "tessera tune measures again");
  }
  throw Error(ErrorCode::unsupported, "policy 'tuned': this problem was never measured",
              "tessera tune measures and stores; policy model_topk measures the best predicted ones");
}

struct PolicyRow {
  std::string_view name;
  Order (*rank)(const SelectionInput&, const Legal&);
  ChoiceSource source;
  bool takes_decisions;  // a stored decision goes before `rank`
};

// In the order of Policy.
constexpr std::array<PolicyRow, 6> kPolicies = {{
    {"model", by_prediction, ChoiceSource::model, true},
    {"model_topk", by_prediction, ChoiceSource::measured, true},
    {"tuned", by_measurement, ChoiceSource::tuned, true},
    {"explicit", as_enumerated, ChoiceSource::explicit_config, false},
    {"first_legal", as_enumerated, ChoiceSource::first_legal, false},
    {"callback", by_callback, ChoiceSource::callback, false},
}};

constexpr std::array<std::string_view, 6> kSources = {"tuned",       "model",    "explicit",
                                                      "first_legal", "callback", "measured"};

std::vector<KernelConfig> explicit_config(const SelectionInput& in) {
  const KernelConfig config = KernelConfig::read(in.options.config);
  if (const Rule* rule = rejected_by(in.view, config, in.arch)) {
    throw Error(ErrorCode::unsupported,
                "config '" + to_string(config) + "' rejected by " + std::string(rule->name) + ": " +
                    std::string(rule->reason),
                "explain --suggest CONFIG gives the nearest legal one");
  }
  return {config};
}

// What one policy goes by and the others would leave unread.
void check_given(const DispatcherOptions& o, bool given, Policy needs_it, std::string_view what) {
  if (given == (o.policy == needs_it)) return;
  throw Error(ErrorCode::bad_input,
              "policy '" + std::string(to_string(o.policy)) + "' " + (given ? "with " : "without ") +
                  std::string(what),
              given ? "policy '" + std::string(to_string(needs_it)) + "' goes by it" : "");
}

// So many are gone on with after a step of leading_configs(), and into the last one: what they miss at times
// is predicted to be quicker by less than predictions err by (docs/selection.md).
constexpr size_t kLeading = 32, kLeadingLast = 64;

// Those among which the best predicted one is looked for, of tens of thousands.
std::vector<KernelConfig> likely_configs(const SelectionInput& in) {
  const Model& model = model_for(in.options.model, in.arch, in.problem);
  Legal some{leading_configs(in.view, in.arch, !only_plans(in.options.device)), {}};
  const size_t steps = leading_steps(in.arch);
  for (size_t step = 1; step <= steps; ++step) {
    some.us.resize(some.configs.size());
    model.predict(in.view, in.arch, some.configs, some.us);
    Order best = best_of(some, step < steps ? kLeading : kLeadingLast);
    std::sort(best.begin(), best.end());
    std::vector<KernelConfig> kept;
    for (size_t i : best) kept.push_back(some.configs[i]);
    some.configs = configs_like(in.view, in.arch, kept, step);
  }
  return some.configs;
}

// Legal configs with the priority their registry gives them (0 without one).
std::vector<KernelConfig> allowed_configs(const SelectionInput& in, std::vector<int>* priorities) {
  if (in.options.policy == Policy::explicit_config) {
    int priority = 0;
    std::vector<KernelConfig> config = explicit_config(in);
    const Registry* registry = in.options.registry.get();
    if (registry && !registry->find(in.problem, in.arch.name, config[0], &priority))
      throw Error(
          ErrorCode::unsupported,
          "registry '" + registry->name() + "' does not declare config '" + to_string(config[0]) + "'",
          "declare it, or use no registry");
    priorities->assign(1, priority);
    return config;
  }
  std::vector<KernelConfig> legal =
      ranks_a_part(in) ? likely_configs(in) : configs_on(in.options.device, in.view, in.arch);
  const Registry* registry = in.options.registry.get();
  if (!registry) {
    priorities->assign(legal.size(), 0);
    return legal;
  }
  for (const KernelConfig& c : registry->exact_configs(in.problem, in.arch.name)) {
    if (!rejected_by(in.view, c, in.arch) && std::find(legal.begin(), legal.end(), c) == legal.end())
      legal.push_back(c);
  }
  std::vector<KernelConfig> out;
  for (const KernelConfig& c : legal) {
    int priority;
    if (!registry->find(in.problem, in.arch.name, c, &priority)) continue;
    out.push_back(c);
    priorities->push_back(priority);
  }
  if (out.empty() && !legal.empty()) {
    throw Error(ErrorCode::unsupported,
                "registry '" + registry->name() + "' declares none of the " + std::to_string(legal.size()) +
                    " legal configurations",
                "declare more kernels, or use no registry");
  }
  return out;
}

// Index of the configuration that a stored decision names; their number when there is none.
size_t decided(const SelectionInput& in, std::span<const KernelConfig> configs) {
  const auto choice = stored_decision(in);
  if (!choice) return configs.size();
  return static_cast<size_t>(std::find(configs.begin(), configs.end(), choice->config) - configs.begin());
}

}  // namespace

std::string_view to_string(ChoiceSource s) { return kSources[static_cast<size_t>(s)]; }
std::string_view to_string(Policy p) { return kPolicies[static_cast<size_t>(p)].name; }
void check_options(const DispatcherOptions& o) {
  if (static_cast<size_t>(o.policy) >= kPolicies.size())
    throw Error(ErrorCode::bad_input, "unknown policy " + std::to_string(static_cast<int>(o.policy)));
  check_given(o, !o.config.empty(), Policy::explicit_config, "a config");
  check_given(o, static_cast<bool>(o.rank), Policy::callback, "a rank function");
  if (!o.config.empty()) KernelConfig::read(o.config);
  if (o.top_k < 0 || o.top_k > kMostTopK) {
    throw Error(ErrorCode::bad_input, "top_k is " + std::to_string(o.top_k),
                "0 to " + std::to_string(kMostTopK));
  }
  if (!o.model.empty() && o.model != analytic_model().name())
    LearnedModel::parse(read_file(o.model), o.model);
}

bool ranks_a_part(const SelectionInput& in) {
  const DispatcherOptions& o = in.options;
  const bool by_model = o.policy == Policy::model || o.policy == Policy::model_topk;
  return by_model && in.most < kLeadingLast && !o.registry && leading_steps(in.arch) > 0 &&
         !stored_decision(in);
}

ChoiceSource choice_source(Policy policy) { return kPolicies[static_cast<size_t>(policy)].source; }

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const PolicyRow& row : kPolicies) names.emplace_back(row.name);
  return names;
}

Policy parse_policy(std::string_view text) {
  for (size_t i = 0; i < kPolicies.size(); ++i) {
    if (kPolicies[i].name == text) return static_cast<Policy>(i);
  }
  throw Error(ErrorCode::bad_input, "unknown policy '" + std::string(text) + "'",
              "one of " + join(policy_names(), " "));
}

std::string why_nothing_is_legal(const GemmView& view, const ArchSpec& arch) {
  std::map<const Rule*, int> refused;
  int total = 0;
  for_each_candidate(view, arch, [&](const KernelConfig& c) {
    ++total;
    if (const Rule* rule = rejected_by(view, c, arch)) ++refused[rule];
  });
  if (arch.instructions_for(view.a.type, view.b.type).empty()) {
    return arch.name + " has no instruction for " + std::string(to_string(view.a.type)) + " x " +
           std::string(to_string(view.b.type));
  }
  std::string text =
      "no legal configuration on " + arch.name + " among " + std::to_string(total) + " candidates";
  for (const auto& [rule, count] : refused) {
    text += "; " + std::to_string(count) + " refused by " + std::string(rule->name) + ": " +
            std::string(rule->reason);
  }
  return text;
}

std::vector<Candidate> ranked_candidates(const SelectionInput& in, ChoiceSource* source) {
  std::vector<int> priorities;
  Legal legal{allowed_configs(in, &priorities), {}};
  const size_t count = legal.configs.size();
  if (count == 0) {
    throw Error(ErrorCode::unsupported, why_nothing_is_legal(in.view, in.arch),
                "explain --rejected lists each one");
  }
  legal.us.resize(count);
  model_for(in.options.model, in.arch, in.problem).predict(in.view, in.arch, legal.configs, legal.us);

  const PolicyRow& policy = kPolicies[static_cast<size_t>(in.options.policy)];
  const size_t winner = policy.takes_decisions ? decided(in, legal.configs) : count;
  Order order;
  if (winner < count && in.options.policy == Policy::tuned) {
    order = {winner};
  } else {
    order = policy.rank(in, legal);
    if (winner < count) {
      std::erase(order, winner);
      order.insert(order.begin(), winner);
    }
  }
  if (in.options.registry) {
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t x, size_t y) { return priorities[x] > priorities[y]; });
  }
  if (source) *source = order[0] == winner ? ChoiceSource::tuned : policy.source;
  order.resize(std::min(order.size(), in.most));
  std::vector<Candidate> out;
  out.reserve(order.size());
  for (size_t i : order) out.push_back(legal[i]);
  return out;
}

std::vector<KernelConfig> configs_on(const std::string& device, const GemmView& v, const ArchSpec& a) {
  return only_plans(device) ? legal_configs(v, a) : runnable_configs(v, a);
}

size_t raced(const DispatcherOptions& o, double band, std::span<const Candidate> candidates) {
  if (o.top_k > 0) return std::min(candidates.size(), static_cast<size_t>(o.top_k));
  const double limit = candidates[0].predicted_us * (1 + band);
  size_t count = 1;
  while (count < std::min<size_t>(candidates.size(), kMostRaced) && candidates[count].predicted_us <= limit)
    ++count;
  return count;
}

}  // namespace tessera
