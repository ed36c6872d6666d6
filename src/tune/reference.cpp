#include "tune/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "core/family.h"
#include "tune/element.h"
#include "tune/factors.h"
#include "tune/minimal_filtering.h"

namespace tessera {
namespace {

constexpr double kUnit = 0x1p-24;   // relative rounding error of f32
constexpr double kTiny = 0x1p-126;  // denormals may be flushed
constexpr double kApproximation =
    0x1p-19;  // of erf, exp and tanh in vector code, relative to their argument's scale
constexpr double kExactIntegers = 0x1p24;

// In what the kernels work out an epilogue.
enum class Precision {
  f32,
  f64  // i32 results of integers
};

bool fits(Precision p, double v) {
  if (p == Precision::f32) return static_cast<double>(static_cast<float>(v)) == v;
  return v == std::nearbyint(v) && std::fabs(v) < 0x1p53;
}

// `x` after one more rounding, which does nothing to a value that is known exactly and representable.
Expected rounded(Precision p, Expected x) {
  if (x.error == 0 && fits(p, x.value)) return x;
  const double unit = p == Precision::f32 ? kUnit : 0x1p-50;  // the reference itself rounds to f64
  return {x.value, x.error + unit * (std::fabs(x.value) + x.error) + kTiny};
}

Expected shifted(Precision p, Expected x, double d) { return rounded(p, {x.value + d, x.error}); }
Expected scaled(Precision p, Expected x, double f) {
  if (p == Precision::f64) f = static_cast<float>(f);  // as kernels get it
  return rounded(p, {x.value * f, x.error * std::fabs(f)});
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A smooth function with derivatives up to `slope`, computed by approximations good to `scale` *
// kApproximation.
Expected smooth(double value, Expected x, double slope, double scale) {
  return {value, slope * x.error + kApproximation * scale + kTiny};
}

Expected quantised(Precision p, Expected x, double scale, double zero_point) {
  const Expected y = scaled(p, x, scale);
  const double low = std::nearbyint(y.value - y.error), high = std::nearbyint(y.value + y.error);
  const double value = std::nearbyint(y.value);
  return rounded(p, {value + zero_point, std::max(high - value, value - low)});
}

Expected plus_d(Precision p, const EpilogueStep&, Expected x, double d) { return shifted(p, x, d); }
Expected times_d(Precision p, const EpilogueStep&, Expected x, double d) { return scaled(p, x, d); }

// In the order of EpilogueKind.
constexpr Expected (*kSteps[kEpilogueKindCount])(Precision, const EpilogueStep&, Expected, double) = {
    plus_d,
    plus_d,
    plus_d,
    plus_d,
    times_d,
    times_d,
    times_d,
    /* scale */
    [](Precision p, const EpilogueStep& s, Expected x, double) { return scaled(p, x, s.params[0]); },
    /* relu */
    [](Precision, const EpilogueStep&, Expected x, double) {
      return Expected{std::max(x.value, 0.0), x.error};
    },
    /* leaky_relu */
    [](Precision p, const EpilogueStep& s, Expected x, double) {
      const double slope = s.params[0];
      const Expected y{x.value < 0 ? slope * x.value : x.value, x.error * std::max(1.0, std::fabs(slope))};
      return rounded(p, y);
    },
    /* gelu */
    [](Precision, const EpilogueStep&, Expected x, double) {
      return smooth(x.value * 0.5 * std::erfc(-x.value * M_SQRT1_2), x, 1.13, std::fabs(x.value));
    },
    /* gelu_tanh */
    [](Precision, const EpilogueStep&, Expected x, double) {
      const double inner = std::sqrt(M_2_PI) * (x.value + 0.044715 * x.value * x.value * x.value);
      return smooth(0.5 * x.value * (1 + std::tanh(inner)), x, 1.13, std::fabs(x.value));
    },
    /* silu */
    [](Precision, const EpilogueStep&, Expected x, double) {
      return smooth(x.value * sigmoid(x.value), x, 1.1, std::fabs(x.value));
    },
    /* sigmoid */
    [](Precision, const EpilogueStep&, Expected x, double) { return smooth(sigmoid(x.value), x, 0.25, 1); },
    /* tanh */
    [](Precision, const EpilogueStep&, Expected x, double) { return smooth(std::tanh(x.value), x, 1, 1); },
    /* hardswish */
    [](Precision, const EpilogueStep&, Expected x, double) {
      const double value = x.value * std::clamp(x.value + 3, 0.0, 6.0) / 6;
      return Expected{value, 1.5 * x.error + 4 * kUnit * std::fabs(x.value) + kTiny};
    },
    /* clamp */
    [](Precision, const EpilogueStep& s, Expected x, double) {
      return Expected{std::clamp<double>(x.value, s.params[0], s.params[1]), x.error};
    },
    /* quant */
    [](Precision p, const EpilogueStep& s, Expected x, double) {
      return quantised(p, x, s.params[0], s.params[1]);
    },
};

// `count` of 0..total-1 or all: the ends, and a fixed random choice between them.
std::vector<int64_t> chosen(int64_t total, int64_t count, uint64_t seed) {
  std::vector<int64_t> all;
  if (count >= total) {
    all.resize(static_cast<size_t>(total));
    std::iota(all.begin(), all.end(), int64_t{0});
    return all;
  }
  std::set<int64_t> some;
  for (int64_t i = 0; i < std::min<int64_t>(8, (count + 1) / 2); ++i) {
    some.insert(i);
    some.insert(total - 1 - i);
  }
  std::mt19937_64 random(seed);
  while (static_cast<int64_t>(some.size()) < count)
    some.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(total)));
  return {some.begin(), some.end()};
}

constexpr size_t kColumns = 64;                 // computed together, at most
constexpr int64_t kFactors = int64_t{1} << 23;  // held at a time, but for one column

// What the epilogue and the conversion to C see of one element's surroundings.
class Finish {
 public:
  explicit Finish(const Operands& o) : o_(o), v_(o.view()), p_(o.problem()) {
    if (v_.acc == DType::i32 && v_.c.type == DType::i32) precision_ = Precision::f64;
  }

  Expected operator()(int64_t g, int64_t i, int64_t j, Expected acc) const {
    Expected x = rounded(precision_, acc);
    if (p_.alpha != 1) x = scaled(precision_, x, p_.alpha);
    if (p_.beta != 0) {
      const double before = o_.c_before(o_.c_index(g, i, j));
      const Expected term = scaled(precision_, rounded(precision_, {before, 0}), p_.beta);
      x = rounded(precision_, {x.value + term.value, x.error + term.error});
    }
    int next_d = 0;
    for (const EpilogueStep& step : v_.epilogue) {
      const EpilogueKindInfo& row = info(step.kind);
      double d = 0;
      if (row.takes_d) {
        const DStrides& strides = v_.d_strides;
        const int64_t at = row.broadcast == Broadcast::row      ? g * strides.row_group + j
                           : row.broadcast == Broadcast::column ? i
                           : v_.channels_first                  ? o_.c_index(g, i, j)
                                                                : g * strides.group + i * strides.row + j;
        d = load_element(v_.d, o_.d(next_d++), at);
      }
      x = kSteps[static_cast<size_t>(step.kind)](precision_, step, x, d);
    }
    return x;
  }

 private:
  const Operands& o_;
  const GemmView& v_;
  const Problem& p_;
  Precision precision_ = Precision::f32;
};

double most_of(const double* x, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, std::fabs(x[i]));
  return most;
}

// What sums of products of random signs reach on their way to `sum`, if these squared add up to spread^2.
double partial_sums(double sum, double spread) { return std::fabs(sum) + 3 * spread; }

double norm(const double* x, int64_t count, int64_t step) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i * step] * x[i * step];
  return std::sqrt(sum);
}

}  // namespace

Arithmetic arithmetic_of(const Kernel& kernel) {
  return {kernel.sum_error(), info(kernel.choice().config.family_id()).transforms};
}

Expected apply_step(const EpilogueStep& step, Expected x, double d) {
  return kSteps[static_cast<size_t>(step.kind)](Precision::f32, step, x, d);
}

double accumulation_error(int64_t k, double norms, double partial) {
  const auto terms = static_cast<double>(k);
  // Of a rounding's error, at most kUnit of the sum so far, the deviation is 1 / sqrt(3) of that.
  constexpr double kDeviations = 7;
  return std::min((std::min(terms, 8 * std::sqrt(terms)) + 4) * kUnit * norms,
                  (kDeviations / std::sqrt(3.0) * std::sqrt(terms) + 4) * kUnit * partial);
}

double truncation_error(const double* a, const double* b, size_t step_b, int64_t k, double unit) {
  double bias = 0, variance = 0;
  for (int64_t first = 0; first < k; first += kTruncatedRun) {
    double sum = 0, most = 0;
    int positive = 0, negative = 0;
    for (int64_t x = first; x < std::min(k, first + kTruncatedRun); ++x) {
      const double product = a[x] * b[static_cast<size_t>(x) * step_b];
      sum += product;
      most = std::max({most, std::fabs(product), std::fabs(sum)});
      positive += product > 0;
      negative += product < 0;
    }
    bias += unit * most * (positive - negative) / 2;
    variance += unit * most * unit * most * (positive + negative) / 12;
  }
  constexpr double kDeviations = 6;
  return std::fabs(bias) + kDeviations * std::sqrt(variance);
}

Sample sample_of(const GemmView& v, int64_t max_work, int64_t max_elements) {
  const int64_t k = std::max<int64_t>(v.k, 1);
  const auto fits = [&](int64_t g, int64_t r, int64_t c) {
    return static_cast<double>(g) * r * c <= static_cast<double>(max_elements) &&
           static_cast<double>(g) * r * c * k <= static_cast<double>(max_work);
  };
  Sample s;
  s.complete = fits(v.groups, v.m, v.n);
  const int64_t groups = s.complete ? v.groups : std::min<int64_t>(v.groups, 3);
  int64_t rows = v.m, cols = v.n;
  if (!s.complete) {
    const int64_t budget = std::min(max_elements, max_work / k) / groups;  // elements of one group
    rows = std::min<int64_t>(v.m, 64);
    cols = std::clamp<int64_t>(budget / rows, std::min<int64_t>(v.n, 64), v.n);
    rows = std::clamp<int64_t>(budget / cols, rows, v.m);
  }
  s.groups = chosen(v.groups, groups, 1);
  s.rows = chosen(v.m, rows, 2);
  s.cols = chosen(v.n, cols, 3);
  return s;
}

std::vector<Expected> reference(const Operands& o, const Sample& s, Arithmetic arithmetic) {
  const GemmView& v = o.view();
  const Finish finish(o);
  const bool integer = v.acc == DType::i32, whole_numbers = o.kind() == FillKind::integers;
  std::vector<Expected> out(s.size());
  const auto row_count = static_cast<int64_t>(s.rows.size());
  const Factors factors(o);
  const std::optional<MinimalFiltering> filtering =
      arithmetic.minimal_filtering ? std::optional<MinimalFiltering>(v) : std::nullopt;
  const auto columns =
      static_cast<size_t>(std::clamp<int64_t>(kFactors / std::max<int64_t>(v.k, 1), 1, kColumns));
  // k x columns; the last line is read kColumns wide as the others are.
  std::vector<double> b(static_cast<size_t>(v.k) * columns + kColumns);
  for (size_t g = 0; g < s.groups.size(); ++g) {
    for (size_t first = 0; first < s.cols.size(); first += columns) {
      const size_t width = std::min(columns, s.cols.size() - first);
      std::vector<double> column(static_cast<size_t>(v.k)), b_norm(kColumns), b_most(kColumns);
      std::vector<std::vector<double>> b_sums(kColumns);
      for (size_t j = 0; j < width; ++j) {
        factors.column(s.groups[g], s.cols[first + j], column.data());
        for (int64_t x = 0; x < v.k; ++x)
          b[static_cast<size_t>(x) * columns + j] = column[static_cast<size_t>(x)];
        b_norm[j] = norm(column.data(), v.k, 1);
        b_most[j] = most_of(column.data(), v.k);
        if (filtering) {
          b_sums[j] = filtering->column_norms(
              s.cols[first + j], column.data(),
              [&](int64_t other, double* to) { factors.column(s.groups[g], other, to); });
        }
      }
#pragma omp parallel if (row_count * v.k > 16384)
      {
        std::vector<double> a(static_cast<size_t>(v.k));
#pragma omp for schedule(static)
        for (int64_t r = 0; r < row_count; ++r) {
          const int64_t i = s.rows[static_cast<size_t>(r)];
          factors.row(s.groups[g], i, a.data());
          const double a_norm = norm(a.data(), v.k, 1), a_most = most_of(a.data(), v.k);
          const auto a_sums = filtering ? filtering->row_norms(i, a.data()) : std::vector<double>();
          double sum[kColumns] = {};  // of integers too: those below 2^53 are exact in a double
          for (int64_t x = 0; x < v.k; ++x) {
            const double factor = a[static_cast<size_t>(x)];
            const double* line = &b[static_cast<size_t>(x) * columns];
            for (size_t j = 0; j < kColumns; ++j) sum[j] += factor * line[j];
          }
          for (size_t j = 0; j < width; ++j) {
            // At least the sum of the magnitudes of what is added up.
            const double norms = filtering ? filtering->magnitude(i, s.cols[first + j], a_sums, b_sums[j])
                                           : a_norm * b_norm[j];
            const double most_exact = filtering ? filtering->most_exact() : kExactIntegers;
            const bool exact = integer || (whole_numbers && norms <= most_exact);
            const double partial =
                filtering ? norms : partial_sums(sum[j], std::min(a_most * b_norm[j], b_most[j] * a_norm));
            Expected acc{
                sum[j], exact ? 0 : accumulation_error(filtering ? filtering->terms() : v.k, norms, partial)};
            if (!exact && filtering) acc.error += static_cast<double>(filtering->roundings()) * kUnit * norms;
            if (!exact && arithmetic.sum_error > 0)
              acc.error += truncation_error(a.data(), &b[j], columns, v.k, arithmetic.sum_error);
            out[(g * s.rows.size() + static_cast<size_t>(r)) * s.cols.size() + first + j] =
                finish(s.groups[g], i, s.cols[first + j], acc);
          }
        }
      }
    }
  }
  return out;
}

std::vector<Expected> reference_bias_grad(const Operands& o, const Sample& s) {
  std::vector<Expected> out;
  if (!o.problem().bias_grad) return out;
  const GemmView& v = o.view();
  const Problem& p = o.problem();
  std::vector<double> row(static_cast<size_t>(v.k));
  for (int64_t g : s.groups) {
    for (int64_t i : s.rows) {
      Factors(o).row(g, i, row.data());
      double sum = 0, size = 0;
      const double spread = norm(row.data(), v.k, 1);
      for (double x : row) {
        sum += x;
        size += std::fabs(x);
      }
      const bool exact = o.kind() == FillKind::integers && size <= kExactIntegers;
      Expected x =
          scaled(Precision::f32, {sum, exact ? 0 : accumulation_error(v.k, size, partial_sums(sum, spread))},
                 p.alpha);
      if (p.beta != 0) {
        const Expected before = scaled(Precision::f32, {o.bias_grad_before(g * v.m + i), 0}, p.beta);
        x = rounded(Precision::f32, {x.value + before.value, x.error + before.error});
      }
      out.push_back(x);
    }
  }
  return out;
}

}  // namespace tessera
