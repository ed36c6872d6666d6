#include "tune/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tune/element.h"
#include "tune/factors.h"

namespace tessera {
namespace {

// Writes the right answer into C, in the simplest way.
void compute(Operands& o) {
  const GemmView& v = o.view();
  Sample all = sample_of(v);
  ASSERT_TRUE(all.complete);
  const auto expected = reference(o, all);
  size_t next = 0;
  for (int64_t g = 0; g < v.groups; ++g) {
    for (int64_t i = 0; i < v.m; ++i) {
      for (int64_t j = 0; j < v.n; ++j) {
        store_element(v.c.type, o.c(), g * v.c.group_stride + i * v.c.row_stride + j * v.c.col_stride,
                      expected[next++].value);
      }
    }
  }
}

double naive(const Operands& o, int64_t g, int64_t i, int64_t j) {
  const GemmView& v = o.view();
  double sum = 0;
  for (int64_t x = 0; x < v.k; ++x) {
    sum += load_element(v.a.type, o.a(), g * v.a.group_stride + i * v.a.row_stride + x * v.a.col_stride) *
           load_element(v.b.type, o.b(), g * v.b.group_stride + x * v.b.row_stride + j * v.b.col_stride);
  }
  return sum;
}

// A dot product as hardware adds it that aligns 32 products and the sum before them to the largest of these
// and keeps so many bits behind its first one; runs of it are added exactly.
double truncated(const std::vector<double>& a, const std::vector<double>& b, int bits) {
  const auto k = static_cast<int64_t>(a.size());
  double total = 0;
  for (int64_t run = 0; run < k; run += kTruncatedRun) {
    double sum = 0;
    for (int64_t step = run; step < std::min(k, run + kTruncatedRun); step += 32) {
      std::vector<double> added = {sum};
      for (int64_t x = step; x < std::min(k, step + 32); ++x)
        added.push_back(a[static_cast<size_t>(x)] * b[static_cast<size_t>(x)]);
      double most = 0;
      for (double x : added) most = std::max(most, std::fabs(x));
      const double unit = most > 0 ? std::ldexp(1.0, std::ilogb(most) - bits) : 1;
      sum = 0;
      for (double x : added) sum += std::trunc(x / unit) * unit;
    }
    total += sum;
  }
  return total;
}

TEST(Reference, BoundsSumsThatAreCutOff) {
  constexpr int kBits = 13;
  const struct {
    const char* problem;
    Sample sample;
  } cases[] = {
      // An element that an NVIDIA H200 computes as the emulation does: many more products of one sign.
      {"gemm m=1040 n=6822 k=128 dtype=f8e4m3 out=f32", {{0}, {547}, {4156}, false}},
      {"gemm m=90 n=110 k=33 dtype=f8e4m3 out=f32", {}},
      {"gemm m=90 n=110 k=128 dtype=f8e5m2 out=f32", {}},
      {"gemm m=60 n=70 k=1000 dtype=f8e4m3xf8e5m2 out=f32", {}},
      {"gemm m=40 n=50 k=4096 dtype=f8e4m3 out=f32", {}},
  };
  for (const auto& c : cases) {
    const Operands o(Problem::parse(c.problem), FillKind::uniform, 1, 64);
    const Sample sample = c.sample.size() ? c.sample : sample_of(o.view());
    const auto expected = reference(o, sample, {.sum_error = std::ldexp(1.0, -kBits)});
    const Factors factors(o);
    std::vector<double> a(static_cast<size_t>(o.view().k)), b(a.size());
    double worst = 0;
    size_t next = 0;
    for (int64_t i : sample.rows) {
      factors.row(0, i, a.data());
      for (int64_t j : sample.cols) {
        factors.column(0, j, b.data());
        const Expected& e = expected[next++];
        worst = std::max(worst, std::fabs(truncated(a, b, kBits) - e.value) / e.error);
      }
    }
    EXPECT_LE(worst, 1) << c.problem;
    EXPECT_GE(worst, 0.05) << c.problem << ": the bound would let errors pass";
  }
}

// One product left out of thousands shows; of a million, where f32 itself is no finer, one in a thousand.
TEST(Reference, BoundsAreNarrowEvenOfLongSums) {
  for (const auto& [k, most] : {std::pair{10000, 0.02}, std::pair{1000000, 1.5}}) {
    const Operands o(Problem::parse("gemm m=3 n=4 dtype=f32 k=" + std::to_string(k)), FillKind::uniform);
    for (const Expected& e : reference(o, sample_of(o.view()))) EXPECT_LT(e.error, most) << k;
  }
}

TEST(Reference, IsTheDefinition) {
  for (const char* text :
       {"gemm m=5 n=70 k=9 dtype=f32 layout=rcr", "gemm m=7 n=3 k=4 dtype=u8xi8 layout=rrr batch=2",
        "gemm m=6 n=5 k=3 dtype=f8e4m3xf8e5m2 layout=crr lda=11 ldc=9",
        "gemm m=3 n=4 k=1 dtype=f16 layout=ccr batch=3 stride_b=0"}) {
    Operands o(Problem::parse(text), FillKind::integers);
    const Sample s = sample_of(o.view());
    const auto expected = reference(o, s);
    size_t next = 0;
    for (int64_t g : s.groups) {
      for (int64_t i : s.rows) {
        for (int64_t j : s.cols) {
          ASSERT_EQ(expected[next].value, naive(o, g, i, j)) << text;
          ASSERT_EQ(expected[next++].error, 0) << text;
        }
      }
    }
  }
}

TEST(Reference, EpilogueBetaAndAlphaInOrder) {
  const char* text = "gemm m=4 n=6 k=5 dtype=f32 epilogue=add,mul_row,add_col,scale:0.5,relu alpha=2 beta=-3";
  Operands o(Problem::parse(text), FillKind::integers);
  const auto expected = reference(o, sample_of(o.view()));
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 6; ++j) {
      double x = 2 * naive(o, 0, i, j) - 3 * load_element(DType::f32, o.c(), i * 6 + j);
      x += load_element(DType::f32, o.d(0), i * 6 + j);
      x *= load_element(DType::f32, o.d(1), j);
      x += load_element(DType::f32, o.d(2), i);
      x = std::max(0.5 * x, 0.0);
      EXPECT_EQ(expected[static_cast<size_t>(i * 6 + j)].value, x);
    }
  }
}

TEST(Reference, StepsMatchTheirDefinition) {
  const auto value = [](const char* text, double x) {
    std::string why;
    const auto e = parse_epilogue(text, &why);
    return apply_step(e->steps[0], {x, 0}, 0).value;
  };
  EXPECT_NEAR(value("gelu", 1), 0.8413447460685429, 1e-12);
  EXPECT_NEAR(value("gelu_tanh", 1), 0.8411919906082768, 1e-12);
  EXPECT_NEAR(value("silu", -1), -0.2689414213699951, 1e-12);
  EXPECT_NEAR(value("sigmoid", 2), 0.8807970779778823, 1e-12);
  EXPECT_NEAR(value("tanh", 0.5), 0.46211715726000973, 1e-12);
  EXPECT_EQ(value("hardswish", 1), 4.0 / 6);
  EXPECT_EQ(value("leaky_relu:0.5", -4), -2);
  EXPECT_EQ(value("clamp:-1:1", 7), 1);
  EXPECT_EQ(value("quant:0.5:3", 5), 5);  // 2.5 to even, plus 3
}

TEST(Verify, AcceptsTheRightAnswer) {
  for (const char* text :
       {"gemm m=33 n=65 k=17 dtype=bf16", "gemm m=9 n=9 k=300 dtype=i8 out=i8 epilogue=quant:0.01:3",
        "gemm m=20 n=30 k=40 dtype=f32 ldc=37 batch=2 stride_c=2000 beta=1.5", "gemm m=1 n=1 k=0 dtype=f32",
        "gemm m=8 n=8 k=64 dtype=f16 epilogue=bias,gelu,mul out=f8e4m3"}) {
    for (FillKind kind : {FillKind::uniform, FillKind::integers}) {
      Operands o(Problem::parse(text), kind);
      const Verifier verifier(o);
      compute(o);
      const Verification v = verifier.check();
      EXPECT_TRUE(v.ok) << text << ": " << v.failure;
      EXPECT_LE(v.max_err, v.bound);
      EXPECT_TRUE(v.complete);
    }
  }
}

// So that the figures say something of a type whose every value is an end of what is right for it.
TEST(Verify, TheWorstElementIsWithinItsBoundAlsoInCoarseTypes) {
  for (const char* type : {"f32", "bf16", "f16"}) {
    Operands o(Problem::parse(std::string("gemm m=64 n=64 k=300 dtype=") + type), FillKind::uniform);
    const Verifier verifier(o);
    compute(o);
    const Verification v = verifier.check();
    EXPECT_TRUE(v.ok) << v.failure;
    EXPECT_GT(v.max_err, 0) << type;
    EXPECT_LT(v.max_err, 0.999 * v.bound) << type;
  }
}

TEST(Verify, FindsPoisonAndNamesTheFirstWrongElement) {
  Operands o(Problem::parse("gemm m=4 n=5 k=6 dtype=f32"), FillKind::integers);
  const Verifier verifier(o);
  EXPECT_FALSE(verifier.check().ok);  // nothing computed: all NaN
  compute(o);
  static_cast<float*>(o.c())[7] += 1;
  const Verification v = verifier.check();
  EXPECT_FALSE(v.ok);
  EXPECT_EQ(v.max_err, 1);
  EXPECT_EQ(v.bound, 0);
  EXPECT_NE(v.failure.find("C[0][1][2]"), std::string::npos) << v.failure;
}

TEST(Verify, FindsOneDroppedProductInRandomData) {
  Operands o(Problem::parse("gemm m=16 n=16 k=1000 dtype=f32"), FillKind::uniform);
  const Verifier verifier(o);
  compute(o);
  auto* c = static_cast<float*>(o.c());
  c[35] -= static_cast<float*>(const_cast<void*>(o.a()))[2 * 1000 + 4] * 0.25f;
  EXPECT_FALSE(verifier.check().ok);
}

TEST(Verify, FindsWritesOutsideOfC) {
  Operands o(Problem::parse("gemm m=4 n=5 k=6 dtype=f32 ldc=8"), FillKind::integers);
  const Verifier verifier(o);
  compute(o);
  ASSERT_TRUE(verifier.check().ok);
  auto* c = static_cast<float*>(o.c());
  c[5] = 0;  // between rows
  EXPECT_NE(verifier.check().failure.find("gap"), std::string::npos);
  o.reset_c();
  compute(o);
  c[-1] = 0;
  EXPECT_NE(verifier.check().failure.find("before the start"), std::string::npos);
}

TEST(VerifyDeathTest, ReadingPastAnOperandAndWritingToOneStop) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Operands o(Problem::parse("gemm m=64 n=64 k=64 dtype=f32"), FillKind::integers);
  const auto* a = static_cast<const volatile float*>(o.a());
  EXPECT_DEATH((void)a[64 * 64], "");
  EXPECT_DEATH(*const_cast<volatile float*>(a) = 1, "");
}

TEST(Sample, LargeProblemsKeepRowsColumnsAndCorners) {
  const GemmView v = lower(Problem::parse("gemm m=5000 n=7000 k=4096 dtype=bf16 batch=9"));
  const Sample s = sample_of(v);
  EXPECT_FALSE(s.complete);
  EXPECT_GE(s.rows.size(), 64u);
  EXPECT_GE(s.cols.size(), 64u);
  for (const auto* list : {&s.rows, &s.cols}) {
    EXPECT_EQ(list->front(), 0);
    EXPECT_EQ((*list)[7], 7);
    EXPECT_EQ(std::set<int64_t>(list->begin(), list->end()).size(), list->size());
  }
  EXPECT_EQ(s.rows.back(), 4999);
  EXPECT_EQ(s.cols.back(), 6999);
  EXPECT_EQ(s.groups.front(), 0);
  EXPECT_EQ(s.groups.back(), 8);
}

TEST(Sample, LongThinProblemsStayWithinTheirSizes) {
  const Sample s = sample_of(lower(Problem::parse("gemm m=3 n=100000 k=8192 dtype=f32")));
  EXPECT_EQ(s.rows.size(), 3u);
  EXPECT_LE(s.cols.back(), 99999);
  EXPECT_LT(s.size(), 100000u);
}

TEST(Sample, ShortSumsStayWithinTheElementsAskedFor) {
  const Sample s = sample_of(lower(Problem::parse("gemm m=50000 n=640 k=9 dtype=f32")), 1 << 24, 1 << 15);
  EXPECT_FALSE(s.complete);
  EXPECT_LE(s.size(), size_t{1} << 15);
  EXPECT_GE(s.size(), size_t{1} << 14);
}

TEST(Fill, DependsOnTheSeedAlone) {
  std::vector<float> x(1000), y(1000);
  fill(DType::f32, FillKind::uniform, 7, x.data(), 1000);
  fill(DType::f32, FillKind::uniform, 7, y.data(), 1000);
  EXPECT_EQ(x, y);
  EXPECT_EQ(static_cast<double>(x[123]), fill_value(DType::f32, FillKind::uniform, 7, 123));
  fill(DType::f32, FillKind::uniform, 8, y.data(), 1000);
  EXPECT_NE(x, y);
}

TEST(Fill, IntegersCoverTheirRange) {
  std::vector<uint8_t> x(20000);
  fill(DType::u8, FillKind::integers, 1, x.data(), 20000);
  EXPECT_EQ(std::set<uint8_t>(x.begin(), x.end()).size(), 256u);
}

}  // namespace
}  // namespace tessera
