// The feature table: named numbers of (view, config, arch), written once, used for training and serving
// alike.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/work.h"

namespace tessera {

enum class FeatureTag : int { problem, kernel, interaction };

// What has something to tell by it: models of others are trained without.
enum class FeatureOf : int { all, cpu, gpu };

struct FeatureInput {
  const GemmView& v;
  const KernelConfig& c;
  const ArchSpec& a;
  const Work& w;
  double analytic_us;  // what the analytic model predicts
  double cycles = total_cycles(w);
};

struct Feature {
  std::string_view name;
  FeatureTag tag;
  double (*value)(const FeatureInput&);
  void (*column)(std::span<const FeatureInput> rows, float* out);  // value() of each
  FeatureOf of = FeatureOf::all;
};

std::span<const Feature> features();
bool tells(const Feature& f, BackendKind backend);  // whether it does of that backend's kernels
std::string_view to_string(FeatureTag t);

// Values in table order; out.size() == features().size(). All finite.
void compute_features(const GemmView& v, const KernelConfig& c, const ArchSpec& a, std::span<double> out);

}  // namespace tessera
