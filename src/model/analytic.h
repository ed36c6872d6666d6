// The analytic model's terms, for those who need them beside its prediction.
#pragma once

#include "model/cuda_blocks.h"
#include "model/tma_ws.h"
#include "model/work.h"

namespace tessera {

// What the model takes from an architecture, looked up once for many configurations.
class AnalyticTerms {
 public:
  explicit AnalyticTerms(const ArchSpec& a);

  Work work(const GemmView& v, const KernelConfig& c) const { return work_of(v, c, arch_, costs_); }
  // The prediction, in microseconds. `known`: the configuration's work, where it has been worked out.
  double us(const GemmView& v, const KernelConfig& c, const Work* known = nullptr) const;

 private:
  const ArchSpec& arch_;
  CostTable costs_;
  TmaCosts tma_;
  BlockCosts blocks_;
  double cycles_per_us_;
};

}  // namespace tessera
