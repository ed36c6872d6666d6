#include "model/cuda_blocks.h"
#include "model/model.h"
#include "model/tma_ws.h"
#include "model/work.h"

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
    const CostTable costs(a);
    const TmaCosts tma(a);
    const BlockCosts blocks(a);
    const double cycles_per_us = (a.clock_ghz > 0 ? a.clock_ghz : 1.0) * 1e3;
    const auto cycles_of = [&](const KernelConfig& c) {
      switch (c.family_id()) {
        case Family::tma_ws: return tma_ws_cycles(v, c, a, tma);
        case Family::gemv:
        case Family::simt:
        case Family::cp_async: return block_cycles(v, c, a, blocks);
        default: return total_cycles(work_of(v, c, a, costs));
      }
    };
    for (size_t i = 0; i < configs.size(); ++i) us[i] = cycles_of(configs[i]) / cycles_per_us;
  }
};

}  // namespace

const Model& analytic_model() {
  static const Analytic model;
  return model;
}

}  // namespace tessera
