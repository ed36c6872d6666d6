#include "model/learned.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "core/family.h"
#include "core/packed_columns.h"
#include "model/analytic.h"
#include "model/feature_blocks.h"
#include "model/features.h"
#include "model/least_of.h"
#include "tessera/error.h"

namespace tessera {

LearnedModel::LearnedModel(ModelScope scope, std::vector<std::string> names, const Forest& forest, Json made)
    : LearnedModel(std::move(scope), std::move(names), ForestRows(forest.first(kFirstTrees)),
                   ForestRows(forest.after(kFirstTrees)), std::move(made)) {}

LearnedModel::LearnedModel(ModelScope scope, std::vector<std::string> names, ForestRows first,
                           ForestRows rest, Json made)
    : scope_(std::move(scope)),
      names_(std::move(names)),
      first_(std::move(first)),
      rest_(std::move(rest)),
      made_(std::move(made)) {
  name_ = scope_.title();
  const Json* band = made_.is_object() ? made_.find("band") : nullptr;
  band_ = band ? band->as_double() : analytic_model().band();
  const auto table = features();
  for (const std::string& name : names_) {
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const Feature& f) { return f.name == name; });
    if (found == table.end()) {
      throw Error(ErrorCode::unsupported,
                  "model " + name_ + " needs the feature '" + name + "', which this program does not have",
                  "train it again, or use the program it was made with");
    }
    chosen_.push_back(static_cast<uint16_t>(found - table.begin()));
    same_.push_back(found->tag == FeatureTag::problem);
  }
  const size_t most_tested = std::max(first_.features(), rest_.features());
  if (most_tested > names_.size())
    throw Error(ErrorCode::corrupt, "model " + name_ + " tests features that it does not name");
  for (size_t i = 0; i < most_tested; ++i) {
    if (first_.tests(i) || rest_.tests(i)) asked_.push_back(static_cast<uint16_t>(i));
  }
  for (const FamilyInfo& f : families()) {
    const bool seen = scope_.families.empty() || std::find(scope_.families.begin(), scope_.families.end(),
                                                           to_string(f.family)) != scope_.families.end();
    seen_ |= uint64_t{seen} << static_cast<int>(f.family);
  }
}

namespace {

// The analytic model's word on all. `works` comes back filled where the prediction is made of them.
void predict_analytic(AnalyticTerms& terms, const ArchSpec& a, std::span<const KernelConfig> configs,
                      std::span<double> us, std::vector<Work>& works) {
  works.clear();
  const bool cpu = a.backend == BackendKind::cpu;
  for (size_t i = 0; i < configs.size(); ++i) {
    const Work* known = cpu ? &works.emplace_back(terms.work(configs[i])) : nullptr;
    us[i] = terms.us(configs[i], known);
  }
}

// The same product with a B that nobody packed.
GemmView unpacked(GemmView v) {
  v.b_prepacked = false;
  return v;
}

}  // namespace

bool LearnedModel::asks_unpacked(const GemmView& v) const {
  return v.b_prepacked && scope_.operation != "gemm";
}

void LearnedModel::inputs(const GemmView& view, const ArchSpec& a, std::span<const KernelConfig> configs,
                          float* out) const {
  const GemmView v = asks_unpacked(view) ? unpacked(view) : view;
  AnalyticTerms terms(v, a);
  std::vector<Work> works;
  std::vector<double> us(configs.size());
  std::vector<uint32_t> all(configs.size());
  predict_analytic(terms, a, configs, us, works);
  std::iota(all.begin(), all.end(), 0u);
  in_blocks({terms, v, a, configs, us, works, all}, [&](size_t first, std::span<const FeatureInput> rows) {
    for (size_t i = 0; i < chosen_.size(); ++i)
      features()[chosen_[i]].column(rows, out + i * Forest::kRows + first);
  });
}

void LearnedModel::add_trees(std::span<const float* const> columns, std::span<const uint8_t> same,
                             size_t rows, float* sums) const {
  first_.add(columns, same, rows, sums);
  rest_.add(columns, same, rows, sums);
}

// The questions of one call. Memory is the thread's, grown on its first call and then kept.
class LearnedModel::Asking {
 public:
  Asking(const LearnedModel& model, const GemmView& v, const ArchSpec& a,
         std::span<const KernelConfig> configs, std::span<double> us)
      : model_(model),
        serving_(serving(model.scope_, a)),
        arch_(serving_ ? *serving_ : a),
        terms_(v, arch_),
        view_(v),
        configs_(configs),
        us_(us),
        seen_us_(us),
        m_(memory()) {
    if (serving_) {
      m_.serving_us.resize(us.size());
      seen_us_ = m_.serving_us;
      analytic_model().predict(v, a, configs, us);
    }
    predict_analytic(terms_, arch_, configs, seen_us_, m_.works);
    m_.matrix.resize(std::max(m_.matrix.size(), model.chosen_.size() * Forest::kRows));
    m_.columns.resize(model.chosen_.size());
    for (size_t f = 0; f < m_.columns.size(); ++f) m_.columns[f] = m_.matrix.data() + f * Forest::kRows;
  }

  void each() {
    take_best(us_.size());
    in_batches([&](size_t, std::span<const uint32_t> which) {
      begin(which);
      finish(which);
    });
    place_others();
  }

  void few() {
    take_best(most_begun(arch_));
    const size_t begun = m_.order.size();
    m_.begun.resize(begun);
    in_batches([&](size_t first, std::span<const uint32_t> which) {
      begin(which);
      for (size_t r = 0; r < which.size(); ++r) m_.begun[first + r] = corrected(r, which[r]);
    });
    least_of(m_.begun, kMostAsked, m_.kept);
    for (size_t r = 0; r < begun; ++r) std::swap(us_[m_.order[r]], m_.begun[r]);
    for (const uint32_t r : m_.kept) us_[m_.order[r]] = m_.begun[r];
    keep(begun <= Forest::kRows);
    finish(m_.order);
    place_others();
  }

 private:
  // visit(first, which) for one piece of m_.order after the other, of as many as the matrix has rows.
  template <class F>
  void in_batches(const F& visit) {
    for (size_t first = 0; first < m_.order.size(); first += Forest::kRows) {
      visit(first, std::span<const uint32_t>(m_.order).subspan(
                       first, std::min(Forest::kRows, m_.order.size() - first)));
    }
  }

  // The same architecture with as many units as were measured, where it has others.
  static std::optional<ArchSpec> serving(const ModelScope& scope, const ArchSpec& a) {
    const int units = scope.serving_units(a);
    if (units == 0 || units == a.compute_units) return std::nullopt;
    std::optional<ArchSpec> out(a);
    out->compute_units = units;
    return out;
  }

  bool seen(uint32_t config) const { return model_.seen_ >> configs_[config].family & 1; }

  // Whom to ask, in their order: the `most` of least predictions. What is of a family that the model has not
  // seen is left out, unless everything is.
  void take_best(size_t most) {
    m_.unseen.clear();
    double greatest = 0;
    for (uint32_t i = 0; i < us_.size(); ++i) {
      if (seen(i))
        greatest = std::max(greatest, us_[i]);
      else
        m_.unseen.emplace_back(i, us_[i]);
    }
    if (m_.unseen.size() == us_.size()) m_.unseen.clear();
    if (m_.unseen.empty()) return least_of(us_, most, m_.order);
    for (const auto& [i, us] : m_.unseen) us_[i] = greatest;
    least_of(us_, most, m_.order);
    std::erase_if(m_.order, [&](uint32_t i) { return !seen(i); });
    for (const auto& [i, us] : m_.unseen) us_[i] = us;
  }

  // Predictions of those that were not asked: behind all that were; of families that the model has not seen,
  // to the choice as the analytic model has it.
  void place_others() {
    if (m_.order.size() == us_.size()) return;
    double last = 0;
    for (const uint32_t i : m_.order) last = std::max(last, us_[i]);
    auto asked = m_.order.begin();
    for (uint32_t i = 0; i < us_.size(); ++i) {
      if (asked != m_.order.end() && *asked == i)
        ++asked;
      else
        us_[i] = std::max(us_[i], last);
    }
    for (const auto& [i, us] : m_.unseen) us_[i] = us * best_.correction;
  }

  struct Memory {
    std::vector<Work> works;
    std::vector<double> serving_us;                   // analytic predictions
    std::vector<std::pair<uint32_t, double>> unseen;  // and their analytic predictions
    std::vector<uint32_t> order, kept;
    std::vector<double> begun;
    std::vector<float> matrix;
    std::vector<const float*> columns;
    std::array<float, Forest::kRows> sums;
  };
  static Memory& memory() {
    thread_local Memory memory;
    return memory;
  }

  double corrected(size_t row, uint32_t config) const {
    return us_[config] * std::exp(static_cast<double>(m_.sums[row]));
  }

  // The first trees, of rows whose features are looked up for them.
  void begin(std::span<const uint32_t> which) {
    in_blocks({terms_, view_, arch_, configs_, seen_us_, m_.works, which},
              [&](size_t at, std::span<const FeatureInput> rows) {
                for (const uint16_t i : model_.asked_) {
                  // What all rows share is looked up in the first.
                  if (model_.same_[i] && at > 0) continue;
                  features()[model_.chosen_[i]].column(model_.same_[i] ? rows.first(1) : rows,
                                                       m_.matrix.data() + i * Forest::kRows + at);
                }
              });
    m_.sums.fill(0);
    model_.first_.add(m_.columns, model_.same_, which.size(), m_.sums.data());
  }

  // Of those begun goes on with those in `kept` alone, whose rows are there where one batch held all.
  void keep(bool there) {
    if (m_.kept.size() == m_.order.size()) return;
    for (size_t r = 0; r < m_.kept.size(); ++r) m_.order[r] = m_.order[m_.kept[r]];
    m_.order.resize(m_.kept.size());
    if (!there) return begin(m_.order);
    for (const uint16_t i : model_.asked_) {
      float* const column = m_.matrix.data() + i * Forest::kRows;
      for (size_t r = 0; !model_.same_[i] && r < m_.kept.size(); ++r) column[r] = column[m_.kept[r]];
    }
    for (size_t r = 0; r < m_.kept.size(); ++r) m_.sums[r] = m_.sums[m_.kept[r]];
  }

  // The other trees, and with them the times.
  void finish(std::span<const uint32_t> which) {
    model_.rest_.add(m_.columns, model_.same_, which.size(), m_.sums.data());
    for (size_t r = 0; r < which.size(); ++r) {
      const double plain = us_[which[r]];
      us_[which[r]] = corrected(r, which[r]);
      if (us_[which[r]] < best_.us) best_ = {us_[which[r]], us_[which[r]] / plain};
    }
  }

  struct Best {
    double us = std::numeric_limits<double>::infinity(), correction = 1;
  };

  const LearnedModel& model_;
  std::optional<ArchSpec> serving_;  // null: the architecture itself
  const ArchSpec& arch_;             // that the trees are asked about
  AnalyticTerms terms_;
  const GemmView& view_;
  std::span<const KernelConfig> configs_;
  std::span<double> us_;
  std::span<double> seen_us_;  // analytic predictions for arch_
  Memory& m_;
  Best best_;  // of those asked
};

namespace {

// ask(view, configs, us) with all configurations, or once for each view that they have: of kernels that see a
// packed B as one that lies in memory the trees know by what others do. `seen`: families that they know.
template <class Ask>
void by_view(const GemmView& v, std::span<const KernelConfig> configs, std::span<double> us, uint64_t seen,
             const Ask& ask) {
  const auto by_columns = [seen](const KernelConfig& c) {
    return packs_columns(c) && (seen >> c.family & 1);
  };
  const auto count = v.b_prepacked ? std::ranges::count_if(configs, by_columns) : 0;
  if (count == 0) return ask(v, configs, us);
  const GemmView columns = with_packed_columns(v);
  if (count == std::ssize(configs)) return ask(columns, configs, us);
  thread_local std::vector<KernelConfig> some;
  thread_local std::vector<double> some_us;
  for (const bool which : {false, true}) {
    some.clear();
    std::ranges::copy_if(configs, std::back_inserter(some),
                         [&](const KernelConfig& c) { return by_columns(c) == which; });
    some_us.resize(some.size());
    ask(which ? columns : v, std::span<const KernelConfig>(some), std::span<double>(some_us));
    auto next = some_us.begin();
    for (size_t i = 0; i < configs.size(); ++i) {
      if (by_columns(configs[i]) == which) us[i] = *next++;
    }
  }
}

}  // namespace

template <class Ask>
void LearnedModel::ask(const GemmView& v, const ArchSpec& a, std::span<const KernelConfig> configs,
                       std::span<double> us, const Ask& ask_of) const {
  const auto asked = [&](const GemmView& seen, std::span<const KernelConfig> c, std::span<double> t) {
    Asking asking(*this, seen, a, c, t);
    ask_of(asking);
  };
  if (!asks_unpacked(v)) return by_view(v, configs, us, seen_, asked);
  const GemmView plain = unpacked(v);
  asked(plain, configs, us);
  AnalyticTerms of_plain(plain, a), of_packed(v, a);
  for (size_t i = 0; i < configs.size(); ++i) us[i] *= of_packed.us(configs[i]) / of_plain.us(configs[i]);
}

void LearnedModel::predict(const GemmView& v, const ArchSpec& a, std::span<const KernelConfig> configs,
                           std::span<double> us) const {
  ask(v, a, configs, us, [](Asking& asking) { asking.few(); });
}

void LearnedModel::predict_each(const GemmView& v, const ArchSpec& a, std::span<const KernelConfig> configs,
                                std::span<double> us) const {
  ask(v, a, configs, us, [](Asking& asking) { asking.each(); });
}

Forest LearnedModel::forest() const {
  Forest all = first_.forest();
  all.append(rest_.forest());
  return all;
}

std::vector<FeatureShare> LearnedModel::importance() const {
  const Forest forest = this->forest();
  std::vector<double> weight(names_.size());
  double total = 0;
  std::vector<std::pair<size_t, double>> open;  // nodes below a question, and what their own counts
  for (const uint32_t root : forest.roots()) {
    open.emplace_back(root, 1);
    while (!open.empty()) {
      const auto [at, counts] = open.back();
      open.pop_back();
      const ForestNode& node = forest.nodes()[at];
      if (node.feature == ForestNode::kLeaf) continue;
      weight[node.feature] += counts;
      total += counts;
      open.emplace_back(at + 1, counts / 2);
      open.emplace_back(root + node.right, counts / 2);
    }
  }
  std::vector<FeatureShare> out;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (weight[i] > 0) out.push_back({names_[i], weight[i] / total});
  }
  std::stable_sort(out.begin(), out.end(), [](auto& x, auto& y) { return x.share > y.share; });
  return out;
}

}  // namespace tessera
