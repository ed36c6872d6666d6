#include "tessera/problem.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "tessera/error.h"

namespace tessera {
namespace {

std::string refusal(const std::string& text) {
  try {
    Problem::parse(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input) << text;
    return e.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return {};
}

void refused(const std::string& text, const std::string& reason) {
  EXPECT_NE(refusal(text).find(reason), std::string::npos) << text << "\n  " << refusal(text);
}

const std::string kBase = "gemm m=64 n=32 k=16 dtype=f32";

TEST(Problem, TextRoundTrips) {
  for (const char* text : {
           "gemm m=4096 n=4096 k=4096 dtype=bf16 layout=rcr",
           "gemm m=64 n=2112 k=7168 dtype=f16 layout=rcr batch=8 epilogue=bias,add,relu out=f32",
           "gemm m=1 n=1 k=0 dtype=f32 layout=rrr",
           "gemm m=3 n=5 k=7 dtype=u8xi8 layout=crr out=i8",
           "gemm m=3 n=5 k=7 dtype=f8e4m3xf8e5m2 layout=ccr",
           "gemm m=3 n=5 k=7 dtype=i8 layout=rcr epilogue=bias d=i32",
           "gemm m=3 n=5 k=7 dtype=bf16 layout=rrr prepack=b",
           "gemm m=3 n=5 k=7 dtype=f32 layout=rrr batch=4 lda=8 ldb=9 ldc=10 stride_a=0 stride_b=0 "
           "stride_c=30",
           "gemm m=3 n=5 k=7 dtype=f32 layout=rcr alpha=0.1 beta=-2",
       }) {
    SCOPED_TRACE(text);
    const Problem p = Problem::parse(text);
    EXPECT_EQ(Problem::parse(to_string(p)), p);
    EXPECT_EQ(to_string(Problem::parse(to_string(p))), to_string(p));
    EXPECT_EQ(hash(Problem::parse(to_string(p))), hash(p));
  }
}

TEST(Problem, EveryTypeLayoutAndAliasRoundTrips) {
  std::set<std::string> texts;
  for (const char* type : {"f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "u8xi8", "f8e5m2xf8e4m3"}) {
    for (const char* layout : {"rcr", "rrr", "crr", "ccr"}) {
      const std::string text = std::string("gemm m=2 n=3 k=4 dtype=") + type + " layout=" + layout;
      EXPECT_EQ(to_string(Problem::parse(text)), text);
      texts.insert(to_string(Problem::parse(text)));
    }
  }
  EXPECT_EQ(texts.size(), 32u);
  EXPECT_EQ(Problem::parse("gemm m=2 n=3 k=4 dtype=int8"), Problem::parse("gemm m=2 n=3 k=4 dtype=i8"));
}

TEST(Problem, DefaultsAreLeftOut) {
  const Problem p = Problem::parse(
      "gemm  k=16 m=64\tn=32 out=f32 dtype=fp32 d=f32 batch=1 lda=16 ldb=16 ldc=32 alpha=1 beta=-0 "
      "epilogue=none "
      "stride_a=5 stride_c=0");
  EXPECT_EQ(to_string(p), kBase + " layout=rcr");
  EXPECT_EQ(p, Problem::parse(kBase));
  EXPECT_EQ(hash(p), hash(Problem::parse(kBase)));
}

TEST(Problem, StridesThatRepeatThePackedValueAreOne) {
  EXPECT_EQ(Problem::parse(kBase + " batch=3 stride_a=1024 stride_b=512 stride_c=2048"),
            Problem::parse(kBase + " batch=3"));
  EXPECT_NE(Problem::parse(kBase + " batch=3 stride_b=0"), Problem::parse(kBase + " batch=3"));
}

TEST(Problem, ResolvesStridesByLayout) {
  const Problem r = Problem::parse("gemm m=64 n=32 k=16 dtype=f32 layout=rcr batch=2");
  EXPECT_EQ(r.ld_a(), 16);
  EXPECT_EQ(r.ld_b(), 16);
  EXPECT_EQ(r.ld_c(), 32);
  EXPECT_EQ(r.batch_stride_a(), 64 * 16);
  EXPECT_EQ(r.batch_stride_b(), 32 * 16);
  EXPECT_EQ(r.batch_stride_c(), 64 * 32);
  const Problem c = Problem::parse("gemm m=64 n=32 k=16 dtype=f32 layout=crr batch=2 lda=70 ldc=40");
  EXPECT_EQ(c.ld_a(), 70);
  EXPECT_EQ(c.ld_b(), 32);
  EXPECT_EQ(c.batch_stride_a(), 70 * 16);
  EXPECT_EQ(c.batch_stride_c(), 40 * 64);
}

TEST(Problem, HashSeesEveryField) {
  const std::string base = "gemm m=64 n=32 k=16 dtype=bf16 batch=2";
  std::set<uint64_t> hashes{hash(Problem::parse(base))};
  size_t count = 1;
  for (const char* change : {" out=f32", " d=f32", " layout=rrr", " prepack=b", " lda=99", " ldb=99",
                             " ldc=99", " stride_a=0", " stride_b=0", " stride_c=9999", " alpha=2", " beta=1",
                             " epilogue=relu", " epilogue=gelu", " epilogue=relu,gelu", " epilogue=scale:2",
                             " epilogue=scale:3", " epilogue=clamp:1:2", " epilogue=clamp:1:3"}) {
    hashes.insert(hash(Problem::parse(base + change)));
    EXPECT_EQ(hashes.size(), ++count) << change;
  }
  for (const char* other :
       {"gemm m=32 n=64 k=16 dtype=bf16 batch=2", "gemm m=64 n=16 k=32 dtype=bf16 batch=2",
        "gemm m=64 n=32 k=16 dtype=f16 batch=2", "gemm m=64 n=32 k=16 dtype=bf16"}) {
    hashes.insert(hash(Problem::parse(other)));
    EXPECT_EQ(hashes.size(), ++count) << other;
  }
}

TEST(Problem, RefusesBrokenText) {
  refused("", "empty problem");
  refused("   ", "empty problem");
  refused("conv3d m=1", "unknown operation 'conv3d'");
  refused("m=1 n=1 k=1 dtype=f32", "unknown operation");
  refused("gemm n=1 k=1 dtype=f32", "has no 'm'");
  refused("gemm m=1 k=1 dtype=f32", "has no 'n'");
  refused("gemm m=1 n=1 dtype=f32", "has no 'k'");
  refused("gemm m=1 n=1 k=1", "has no 'dtype'");
  refused(kBase + " m=3", "given twice");
  refused(kBase + " lda", "unknown word 'lda'");
  refused(kBase + " lda=", "has no value");
  refused(kBase + " layuot=rcr", "did you mean 'layout='");
  refused(kBase + " =3", "unknown word");
  refused("gemm m=1x n=1 k=1 dtype=f32", "m=1x: not a 64-bit integer");
  refused("gemm m=1.5 n=1 k=1 dtype=f32", "not a 64-bit integer");
  refused("gemm m=+1 n=1 k=1 dtype=f32", "not a 64-bit integer");
  refused("gemm m=99999999999999999999 n=1 k=1 dtype=f32", "not a 64-bit integer");
  refused(kBase + " lda=abc", "lda=abc: not a 64-bit integer");
  refused("gemm m=1 n=1 k=1 dtype=half", "unknown dtype 'half'");
  refused("gemm m=1 n=1 k=1 dtype=f32x", "unknown dtype ''");
  refused("gemm m=1 n=1 k=1 dtype=f8e4m3xf8e5m2xf32", "unknown dtype 'f8e5m2xf32'");
  refused(kBase + " layout=rcc", "unknown layout 'rcc'");
  refused(kBase + " out=double", "unknown dtype 'double'");
  refused(kBase + " d=double", "unknown dtype 'double'");
  refused(kBase + " epilogue=foo", "unknown epilogue step");
  refused(kBase + " prepack=a", "prepack=b");
  refused(kBase + " alpha=x", "not a finite number");
  refused(kBase + " alpha=nan", "not a finite number");
  refused(kBase + " beta=inf", "not a finite number");
}

TEST(Problem, RefusesBadSizes) {
  refused("gemm m=0 n=1 k=1 dtype=f32", "m=0 must be at least 1");
  refused("gemm m=-4 n=1 k=1 dtype=f32", "m=-4 must be at least 1");
  refused("gemm m=1 n=0 k=1 dtype=f32", "n=0 must be at least 1");
  refused("gemm m=1 n=1 k=-1 dtype=f32", "k=-1 must be at least 0");
  refused(kBase + " batch=0", "batch=0 must be at least 1");
  refused(kBase + " batch=-2", "negative");
  refused(kBase + " lda=-1", "negative");
  refused(kBase + " stride_a=-5 batch=2", "negative");
  refused(kBase + " lda=15", "lda=15 is less than the 16 contiguous");
  refused(kBase + " ldb=15", "ldb=15 is less than the 16 contiguous");
  refused(kBase + " layout=rrr ldb=31", "ldb=31 is less than the 32 contiguous");
  refused(kBase + " layout=crr lda=63", "lda=63 is less than the 64 contiguous");
  refused(kBase + " ldc=31", "ldc=31 is less than the 32 contiguous");
  refused(kBase + " batch=2 stride_c=2047", "outputs of different batches overlap");
  refused(kBase + " batch=2 stride_c=0", "outputs of different batches overlap");
  refused(kBase + " prepack=b ldb=99", "leave ldb and stride_b out");
  refused(kBase + " prepack=b batch=2 stride_b=99999", "leave ldb and stride_b out");
}

TEST(Problem, RefusesOverflow) {
  const std::string huge = std::to_string(std::numeric_limits<int64_t>::max());
  refused("gemm m=" + huge + " n=1 k=1 dtype=f32", "overflows");
  refused("gemm m=1 n=" + huge + " k=1 dtype=f32", "overflows");
  refused("gemm m=1 n=1 k=" + huge + " dtype=f32", "overflows");
  refused("gemm m=2000000000 n=2000000000 k=2000000000 dtype=f32", "overflows");
  refused("gemm m=4294967296 n=1 k=4294967296 dtype=f32", "overflows");
  refused(kBase + " lda=" + huge, "overflows");
  refused(kBase + " batch=" + huge, "overflows");
  refused(kBase + " batch=3 stride_a=" + huge, "overflows");
  EXPECT_NO_THROW(Problem::parse("gemm m=1000000 n=1000000 k=1000 dtype=f32"));
}

TEST(Problem, RefusesTypeMixes) {
  refused("gemm m=1 n=1 k=1 dtype=i32", "cannot be an operand");
  refused("gemm m=1 n=1 k=1 dtype=f32xi8", "mix a floating and an integer type");
  refused("gemm m=1 n=1 k=1 dtype=f32xbf16", "mixed types f32xbf16");
  refused("gemm m=1 n=1 k=1 dtype=bf16xf8e4m3", "mixed types");
  refused("gemm m=1 n=1 k=1 dtype=u8", "B cannot be u8");
  refused("gemm m=1 n=1 k=1 dtype=i8xu8", "B cannot be u8");
  refused("gemm m=1 n=1 k=1 dtype=f32 out=i32", "floating operands with an integer output");
  refused("gemm m=1 n=1 k=1 dtype=i8 out=bf16", "integer operands give");
  refused("gemm m=1 n=1 k=1 dtype=i8 d=i8", "D tensors cannot be 8-bit integers");
  refused("gemm m=1 n=1 k=1 dtype=i8 d=bf16", "with out=i32, d is f32 or i32");
  refused("gemm m=1 n=1 k=1 dtype=f32 d=i32", "a floating output takes floating D tensors");
}

TEST(Problem, InterleavedBatchesMayShareRowsOfC) {
  EXPECT_NO_THROW(Problem::parse("gemm m=4 n=8 k=2 dtype=f32 batch=3 ldc=24 stride_c=8"));
  refused("gemm m=4 n=8 k=2 dtype=f32 batch=4 ldc=24 stride_c=8", "overlap");
  refused("gemm m=4 n=8 k=2 dtype=f32 batch=3 ldc=24 stride_c=7", "overlap");
}

TEST(Problem, ValidateChecksWhatWasSetByHand) {
  const Problem good = Problem::parse(kBase);
  auto refuses = [&](auto change) {
    Problem p = good;
    change(p);
    EXPECT_THROW(p.validate(), Error);
  };
  refuses([](Problem& p) { p.alpha = std::numeric_limits<double>::quiet_NaN(); });
  refuses([](Problem& p) { p.beta = std::numeric_limits<double>::infinity(); });
  refuses([](Problem& p) { p.epilogue.count = 9; });
  refuses([](Problem& p) { p.epilogue.count = -1; });
  refuses([](Problem& p) {
    p.epilogue.count = 1;
    p.epilogue.steps[0].kind = static_cast<EpilogueKind>(99);
  });
  refuses([](Problem& p) {
    p.epilogue.count = 1;
    p.epilogue.steps[0] = {EpilogueKind::scale, {std::numeric_limits<float>::quiet_NaN(), 0}};
  });
  refuses([](Problem& p) { p.m = 0; });
  Problem p = good;
  p.stride_a = 7;  // one batch: no stride is ever taken
  p.validate();
  EXPECT_EQ(p, good);
}

TEST(Problem, FactorsAreNumbersOfF32) {
  refused(kBase + " alpha=1e39", "alpha is no finite number within the range of f32");
  refused(kBase + " beta=-1e39", "beta is no finite number within the range of f32");
  refused(kBase + " epilogue=scale:1e39", "not a finite number");
  EXPECT_EQ(Problem::parse(kBase + " alpha=3.4e38 beta=-3.4e38").alpha, 3.4e38);
  Problem p = Problem::parse(kBase + " epilogue=scale:2");
  p.epilogue.steps[0].params[0] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(p.validate(), Error);
  for (double v : {1e300, -1e39, std::numeric_limits<double>::quiet_NaN()}) {
    p = Problem::parse(kBase);
    p.beta = v;
    EXPECT_THROW(p.validate(), Error) << v;
  }
}

TEST(Problem, ValuesWithoutANameAreRefused) {
  const auto expect_named = [](const char* member, auto&& change) {
    Problem p = Problem::parse(kBase + " epilogue=relu");
    change(p);
    try {
      p.validate();
      ADD_FAILURE() << member << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input);
      EXPECT_EQ(e.what_happened().find(member), 0u) << e.what();
    }
    EXPECT_NE(to_string(p).find(member), std::string::npos) << to_string(p);
  };
  expect_named("op is 77", [](Problem& p) { p.op = static_cast<Op>(77); });
  expect_named("a is 77", [](Problem& p) { p.a = static_cast<DType>(77); });
  expect_named("b is 77", [](Problem& p) { p.b = static_cast<DType>(77); });
  expect_named("out is 77", [](Problem& p) { p.out = static_cast<DType>(77); });
  expect_named("d is 77", [](Problem& p) { p.d = static_cast<DType>(77); });
  expect_named("layout is 77", [](Problem& p) { p.layout = static_cast<Layout>(77); });
  expect_named("epilogue has a step 77",
               [](Problem& p) { p.epilogue.steps[0].kind = static_cast<EpilogueKind>(77); });
  expect_named("epilogue has 77 steps", [](Problem& p) { p.epilogue.count = 77; });
}

}  // namespace
}  // namespace tessera
