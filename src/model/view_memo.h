// What the predictions for many configurations of one view have in common, worked out once.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "core/tile_math.h"
#include "model/cpu_facts.h"
#include "model/tma_facts.h"
#include "model/work.h"
#include "tessera/kernel_config.h"

namespace tessera {

class ViewMemo {
 public:
  ViewMemo(const GemmView& v, const ArchSpec& a)
      : limits{0.75 * static_cast<double>(a.l1.bytes), 0.75 * static_cast<double>(a.l2.bytes),
               0.50 * static_cast<double>(a.l3.bytes)},
        view_(v),
        arch_(a),
        bytes_(v.bytes()) {}

  // Bytes that stay in the caches, from the first level on, beside what else is there.
  const std::array<double, 3> limits;
  CpuFacts cpu;  // of the instruction that was asked for last
  TmaFacts tma;  // of the order of operands that was
  TmaBlock block;

  double bytes() const { return bytes_; }

  const Instruction* instruction(const KernelConfig& c) {
    const bool same = instruction_ && c.inst_m == instruction_->m && c.inst_n == instruction_->n &&
                      c.inst_k == instruction_->k;
    if (!same) instruction_ = arch_.find_instruction(view_.a.type, view_.b.type, c);
    return instruction_;
  }

  // What `find` gives for the knobs `key`, asked for again only when they differ from the last call's. Of
  // configurations in the order of enumeration many neighbours agree in most knobs.
  template <class Find>
  const Work& shape(const std::array<int, 4>& key, const Find& find) {
    if (!same_knobs(key, shape_key_)) {
      shape_key_ = key;
      shape_ = find();
    }
    return shape_;
  }
  // The same with two memories: a knob that changes more often than the others chooses one.
  template <class Find>
  double math(bool which, const std::array<int, 6>& key, const Find& find) {
    Math& known = math_[which];
    if (!same_knobs(key, known.key)) known = {key, find()};
    return known.value;
  }

  // Of two parts of the work that run beside each other, the norm of their times >= 0 with this exponent:
  // their sum at 1, the longer one where it grows. Many configurations come to the same times.
  double overlapped(double x, double y, double exponent) {
    Norm& known = norms_[std::bit_cast<uint64_t>(x) * 0x9e3779b97f4a7c15 >> 56];
    if (known.x != x || known.y != y || known.exponent != exponent)
      known = {x, y, exponent, norm(x, y, exponent)};
    return known.value;
  }

 private:
  struct Norm {
    double x = 0, y = 0, exponent = 0, value = 0;
  };

  struct Math {
    std::array<int, 6> key{-1};
    double value = 0;
  };

  static double norm(double x, double y, double exponent) {
    const double longer = std::max(x, y), shorter = std::min(x, y);
    if (longer <= 0) return 0;
    return longer * std::pow(1 + std::pow(shorter / longer, exponent), 1 / exponent);
  }

  const GemmView& view_;
  const ArchSpec& arch_;
  double bytes_;
  const Instruction* instruction_ = nullptr;
  std::array<int, 4> shape_key_{-1};  // no knob is less than 0
  std::array<Math, 2> math_;
  Work shape_;
  std::array<Norm, 256> norms_;  // by a hash of x
};

}  // namespace tessera
