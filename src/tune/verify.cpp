#include "tune/verify.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "tune/element.h"

namespace tessera {

Verifier::Verifier(const Operands& operands, Arithmetic arithmetic)
    : Verifier(operands, sample_of(operands.view()), arithmetic) {}

Verifier::Verifier(const Operands& operands, Sample sample, Arithmetic arithmetic)
    : operands_(operands),
      sample_(std::move(sample)),
      expected_(reference(operands, sample_, arithmetic)),
      expected_bias_grad_(reference_bias_grad(operands, sample_)) {}

Verification Verifier::check() const {
  const DType type = operands_.problem().out;
  Verification out;
  out.checked = sample_.size();
  out.complete = sample_.complete;
  double worst = -1;
  size_t wrong = 0;
  const auto look = [&](double got, const Expected& e, DType t, const auto& name) {
    const double low = round_to(t, e.value - e.error), high = round_to(t, e.value + e.error);
    const bool right = got >= low && got <= high;  // false for NaN
    if (!right && wrong++ == 0)
      out.failure = name() + format(" = %.9g, expected %.9g (%.9g to %.9g)", got, e.value, low, high);
    // Results and limits may both be infinite: then there is no distance.
    // What integers saturate to is the value expected of them.
    const double value = info(t).is_float ? e.value : std::clamp(e.value, low, high);
    const double err = got == value || (right && std::isinf(got)) ? 0 : std::fabs(got - value);
    double limit = std::isinf(low) || std::isinf(high) ? 0 : std::max(value - low, high - value);
    // Types are coarse: the ends themselves would tell nothing but how the last rounding fell.
    if (limit > 0 && e.error > 0)
      limit = std::max(limit, e.error + half_spacing(t, std::fabs(e.value) + e.error));
    double ratio = err == 0 ? 0 : limit == 0 ? HUGE_VAL : err / limit;
    if (!right) ratio = HUGE_VAL;
    if (ratio > worst || (ratio == worst && err > out.max_err)) {
      worst = ratio;
      out.max_err = err;
      out.bound = limit;
    }
  };
  const Expected* expected = expected_.data();
  for (int64_t g : sample_.groups) {
    for (int64_t i : sample_.rows) {
      for (int64_t j : sample_.cols) {
        look(load_element(type, operands_.c(), operands_.c_index(g, i, j)), *expected++, type, [&] {
          return format("C[%lld][%lld][%lld]", static_cast<long long>(g), static_cast<long long>(i),
                        static_cast<long long>(j));
        });
      }
    }
  }
  const Expected* bias = expected_bias_grad_.data();
  for (int64_t g : sample_.groups) {
    for (int64_t i : sample_.rows) {
      if (expected_bias_grad_.empty()) break;
      const int64_t at = g * operands_.view().m + i;
      look(static_cast<double>(operands_.bias_grad()[at]), *bias++, DType::f32,
           [&] { return format("bias_grad[%lld]", static_cast<long long>(at)); });
    }
  }
  if (wrong > 1) out.failure += format(" and %zu more wrong of %zu", wrong - 1, out.checked);
  if (std::string damage = operands_.damage(); !damage.empty()) {
    out.failure += (out.failure.empty() ? "" : "; ") + damage;
  }
  out.ok = out.failure.empty();
  return out;
}

}  // namespace tessera
