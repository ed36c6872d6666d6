// The feature table: named numbers of (view, config, arch), written once, used for training and serving
// alike.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/work.h"

namespace tessera {

enum class FeatureTag : int { problem, kernel, interaction };

struct FeatureInput {
  const GemmView& v;
  const KernelConfig& c;
  const ArchSpec& a;
  const Work& w;
  double analytic_us;  // what the analytic model predicts
};

struct Feature {
  std::string_view name;
  FeatureTag tag;
  double (*value)(const FeatureInput&);
};

std::span<const Feature> features();
std::string_view to_string(FeatureTag t);

// Those of `chosen` (indices into features()), in its order, into out[i * stride].
void compute_features(const FeatureInput& in, std::span<const uint16_t> chosen, float* out, size_t stride);

// Values in table order; out.size() == features().size(). All finite.
void compute_features(const GemmView& v, const KernelConfig& c, const ArchSpec& a, std::span<double> out);

}  // namespace tessera
