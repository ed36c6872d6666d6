// The cost model: predicted microseconds of a legal configuration, from the feature table.
#pragma once

#include <span>
#include <vector>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

class Model {
 public:
  virtual ~Model() = default;
  virtual std::string_view name() const = 0;
  // us[i] for configs[i]; all > 0 and finite. Deterministic and allocation-free per config.
  virtual void predict(const GemmView& v, const ArchSpec& a, std::span<const KernelConfig> configs,
                       std::span<double> us) const = 0;
  // Of nine problems in ten, the fastest configuration is predicted to take at most this share longer than
  // the one predicted to be the fastest. From measurements.
  virtual double band() const = 0;
};

// The structural analytic model, which needs no training.
const Model& analytic_model();

}  // namespace tessera
