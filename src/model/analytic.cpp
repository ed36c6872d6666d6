#include "model/model.h"
#include "model/tma_ws.h"
#include "model/work.h"

namespace tessera {
namespace {

class Analytic : public Model {
 public:
  std::string_view name() const override { return "analytic"; }

  void predict(const GemmView& v, const ArchSpec& a, std::span<const KernelConfig> configs,
               std::span<double> us) const override {
    const CostTable costs(a);
    const TmaCosts tma(a);
    const double cycles_per_us = (a.clock_ghz > 0 ? a.clock_ghz : 1.0) * 1e3;
    for (size_t i = 0; i < configs.size(); ++i) {
      const double cycles = configs[i].family_id() == Family::tma_ws
                                ? tma_ws_cycles(v, configs[i], a, tma)
                                : total_cycles(work_of(v, configs[i], a, costs));
      us[i] = cycles / cycles_per_us;
    }
  }
};

}  // namespace

const Model& analytic_model() {
  static const Analytic model;
  return model;
}

}  // namespace tessera
