// The analytic model's terms, for those who need them beside its prediction.
#pragma once

#include <memory>

#include "core/packed_columns.h"
#include "model/amd_blocks.h"
#include "model/cuda_blocks.h"
#include "model/tma_ws.h"
#include "model/view_memo.h"
#include "model/work.h"

namespace tessera {

// An architecture's costs by the names that the model has for them.
struct ModelCosts {
  explicit ModelCosts(const ArchSpec& a) : cpu(a), tma(a), blocks(a), amd(a) {}

  CostTable cpu;
  TmaCosts tma;
  BlockCosts blocks;
  AmdCosts amd;
};

// What the model takes from a view and an architecture, looked up once for many configurations.
class AnalyticTerms {
 public:
  AnalyticTerms(const GemmView& v, const ArchSpec& a);
  ~AnalyticTerms();

  Work work(const KernelConfig& c) {
    return view_.b_prepacked && packs_columns(c) ? of_columns().work(c)
                                                 : work_of(view_, c, arch_, costs_.cpu, memo_);
  }
  // The prediction, in microseconds. `known`: the configuration's work, where it has been worked out.
  double us(const KernelConfig& c, const Work* known = nullptr);

 private:
  // The same of a packed B as kernels see it that read columns.
  struct Columns;
  AnalyticTerms& of_columns();

  const GemmView& view_;
  const ArchSpec& arch_;
  ModelCosts costs_;
  double cycles_per_us_;
  ViewMemo memo_;
  std::unique_ptr<Columns> columns_;
};

}  // namespace tessera
