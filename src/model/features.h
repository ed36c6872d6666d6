// The feature table: named numbers of (view, config, arch), written once, used for training and serving
// alike.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/groups_shape.h"
#include "model/work.h"

namespace tessera {

enum class FeatureTag : int { problem, kernel, interaction };

// What has something to tell by it: models of others are trained without.
enum class FeatureOf : int { all, cpu, gpu };

// Logarithms of numbers that come again and again: tiles of a line, steps of a kernel.
class LogMemo {
 public:
  double log2(double x) {
    Known& known = known_[std::bit_cast<uint64_t>(x) * 0x9e3779b97f4a7c15 >> 54];
    if (known.x != x) known = {x, std::log2(x)};
    return known.value;
  }

 private:
  struct Known {
    double x = 1, value = 0;
  };
  std::array<Known, 1024> known_;
};

// What all configurations of a view share.
struct FeatureView {
  FeatureView(const GemmView& view, const ArchSpec& arch);

  const GemmView& v;
  const ArchSpec& a;
  LogMemo& logs;  // of this thread
  double bytes, size_a, units;
};

// A configuration, with what several features ask of it.
struct FeatureInput {
  // `groups`: of a configuration of cpu_groups its shape, else null.
  FeatureInput(const FeatureView& view, const KernelConfig& config, const Work& work, double us,
               const GroupsShape* groups);

  const FeatureView& shared;
  const GemmView& v;
  const KernelConfig& c;
  const ArchSpec& a;
  const Work& w;
  double analytic_us;  // what the analytic model predicts
  double cycles;
  // Of a GPU: parts that k is cut into and the steps of one workgroup along its own, workgroups that a
  // compute unit holds at once, as far as their threads and shared memory decide, and how often all units are
  // filled.
  double parts = 1, steps = 1, resident = 1, turns = 1;
  const GroupsShape* groups;
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
