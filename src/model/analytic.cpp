#include "model/analytic.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/model.h"

namespace tessera {
namespace {

// By the problems for validation that models/ keeps times of, 0.16 to 0.28 of convolutions and 0.68 of
// GEMMs, whose times were the least steady; the middle of the four.
constexpr double kBand = 0.25;

class Analytic : public Model {
 public:
  std::string_view name() const override { return "analytic"; }
  double band() const override { return kBand; }

  void predict(const GemmView& v, const ArchSpec& a, std::span<const KernelConfig> configs,
               std::span<double> us) const override {
    AnalyticTerms terms(v, a);
    for (size_t i = 0; i < configs.size(); ++i) us[i] = terms.us(configs[i]);
  }
};

// What a thread found last, good for an architecture that says the same.
class KnownCosts {
 public:
  const ModelCosts& of(const ArchSpec& a) {
    if (!costs_ || backend_ != a.backend || families_ != a.families || names_ != a.costs) {
      costs_.emplace(a);
      backend_ = a.backend;
      families_ = a.families;
      names_ = a.costs;
    }
    return *costs_;
  }

 private:
  BackendKind backend_{};
  std::vector<Family> families_;
  std::vector<std::pair<std::string, double>> names_;
  std::optional<ModelCosts> costs_;
};

const ModelCosts& costs_of(const ArchSpec& a) {
  thread_local KnownCosts known;
  return known.of(a);
}

}  // namespace

AnalyticTerms::AnalyticTerms(const GemmView& v, const ArchSpec& a)
    : view_(v),
      arch_(a),
      costs_(costs_of(a)),
      cycles_per_us_((a.clock_ghz > 0 ? a.clock_ghz : 1.0) * 1e3),
      memo_(v, a) {}

struct AnalyticTerms::Columns {
  Columns(const GemmView& v, const ArchSpec& a) : view(with_packed_columns(v)), terms(view, a) {}
  GemmView view;
  AnalyticTerms terms;
};

AnalyticTerms::~AnalyticTerms() = default;

AnalyticTerms& AnalyticTerms::of_columns() {
  if (!columns_) columns_ = std::make_unique<Columns>(view_, arch_);
  return columns_->terms;
}

double AnalyticTerms::us(const KernelConfig& c, const Work* known) {
  const auto cycles = [&] {
    switch (c.family_id()) {
      case Family::tma_ws: return tma_ws_cycles(view_, c, arch_, costs_.tma, memo_);
      case Family::gemv:
      case Family::simt:
      case Family::cp_async: return block_cycles(view_, c, arch_, costs_.blocks, memo_);
      case Family::mfma:
      case Family::wmma: return amd_cycles(view_, c, arch_, costs_.amd, memo_);
      default: return known ? known->cycles : work(c).cycles;
    }
  };
  return cycles() / cycles_per_us_;
}

const Model& analytic_model() {
  static const Analytic model;
  return model;
}

}  // namespace tessera
