#include "backend/packed_seal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/cpu/kernels.h"
#include "space/space.h"

namespace tessera {
namespace {

std::vector<KernelConfig> configs_of(const std::string& problem) {
  return runnable_configs(lower(Problem::parse(problem)), testing_cpu::backend(1).arch());
}
std::unique_ptr<Kernel> kernel_of(const std::string& problem, const KernelConfig& config) {
  return testing_cpu::make_kernel(Problem::parse(problem), config);
}

std::vector<char> packed_by(const Kernel& kernel, const std::vector<float>& b) {
  std::vector<char> out(kernel.packed_b_bytes());
  kernel.pack_b(b.data(), out.data());
  return out;
}

std::string refusal(const Kernel& kernel, const std::vector<char>& packed) {
  Operands operands(kernel.problem(), FillKind::integers);
  Buffers buffers = operands.bind(kernel);
  buffers.b = packed.data();
  try {
    kernel.run(buffers);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input) << e.what();
    return e.what_happened();
  }
  return "accepted";
}

// Problems that differ in all that a packed B is said to outlast.
struct Readers {
  const char *one, *other;
};
const Readers kReaders[] = {
    {"gemm m=5 n=75 k=70 dtype=f32 layout=rrr prepack=b",
     "gemm m=300 n=75 k=70 dtype=f32 layout=rrr prepack=b epilogue=bias,relu alpha=2 lda=80"},
    {"gemm m=1 n=70 k=130 batch=2 dtype=bf16 layout=rcr prepack=b",
     "gemm m=64 n=70 k=130 batch=2 dtype=bf16 layout=rcr prepack=b beta=1"},
    {"gemm m=3 n=70 k=130 dtype=i8 layout=rcr prepack=b",
     "gemm m=200 n=70 k=130 dtype=i8 layout=rcr prepack=b epilogue=relu"},
    {"gemm m=3 n=70 k=130 dtype=f16 layout=crr prepack=b",
     "gemm m=99 n=70 k=130 dtype=f16 layout=crr prepack=b"},
    {"conv_fwd n=1 c=16 k=24 in=9x9 filter=3x3 pad=1x1 dtype=f32 prepack=b",
     "conv_fwd n=7 c=16 k=24 in=9x9 filter=3x3 pad=1x1 dtype=f32 prepack=b epilogue=bias"},
    {"conv_fwd n=1 g=6 c=4 k=4 in=9x9 filter=3x3 dtype=bf16 prepack=b",
     "conv_fwd n=5 g=6 c=4 k=4 in=9x9 filter=3x3 dtype=bf16 prepack=b"},
    {"conv_fwd n=1 g=40 c=1 k=1 in=9x9 filter=3x3 stride=2x2 dtype=f32 prepack=b",
     "conv_fwd n=5 g=40 c=1 k=1 in=9x9 filter=3x3 stride=2x2 dtype=f32 prepack=b epilogue=relu"},
    {"conv_bwd_data n=1 c=16 k=24 in=9x9 filter=3x3 stride=2x2 pad=1x1 dtype=bf16 prepack=b",
     "conv_bwd_data n=4 c=16 k=24 in=9x9 filter=3x3 stride=2x2 pad=1x1 dtype=bf16 prepack=b"},
    // Few results of one group: pixels share vectors, in the same way whatever the epilogue reads.
    {"conv_fwd n=2 c=4 k=4 in=8x8 filter=3x1 pad=1x0 dtype=f32 prepack=b",
     "conv_fwd n=1 c=4 k=4 in=8x8 filter=3x1 pad=1x0 dtype=f32 prepack=b epilogue=add"},
    {"conv_fwd n=2 c=3 k=2 in=8x8 filter=3x3 pad=1x1 dtype=f32 prepack=b",
     "conv_fwd n=1 c=3 k=2 in=8x8 filter=3x3 pad=1x1 dtype=f32 prepack=b epilogue=bias"},
    {"conv_fwd n=1 c=3 k=16 in=9x9 filter=3x3 dtype=f32 layout=channels_first prepack=b",
     "conv_fwd n=3 c=3 k=16 in=9x9 filter=3x3 dtype=f32 layout=channels_first prepack=b"},
};

TEST(PackedSeal, WhatIsPackedServesOtherMAndEpilogues) {
  for (const Readers& r : kReaders) {
    int common = 0;
    const std::vector<KernelConfig> others = configs_of(r.other);
    std::set<Family> met;
    for (const KernelConfig& config : configs_of(r.one)) {
      if (std::find(others.begin(), others.end(), config) == others.end()) continue;
      // Of each family the first and every twelfth: compiling all of them takes minutes.
      if (common++ % 12 != 0 && met.contains(config.family_id())) continue;
      met.insert(config.family_id());
      SCOPED_TRACE(std::string(r.one) + " | " + to_string(config));
      const auto one = kernel_of(r.one, config), other = kernel_of(r.other, config);
      Operands operands(other->problem(), FillKind::integers);
      const Buffers buffers = operands.bind(*other);
      std::vector<char> first(one->packed_b_bytes()), second(other->packed_b_bytes());
      one->pack_b(operands.b(), first.data());
      other->pack_b(operands.b(), second.data());
      EXPECT_EQ(first, second);
      Buffers with = buffers;
      with.b = first.data();
      EXPECT_NO_THROW(other->run(with));
    }
    EXPECT_GT(common, 0) << r.one;
  }
}

// The leading dimension is of the layout's lines, with a k of 1 too, where strides do not tell rows from
// columns.
TEST(PackedSeal, LeadingDimensionsOfOneRow) {
  for (const char* layout : {"rcr", "rrr"}) {
    const std::string problem = std::string("gemm m=1 n=3 k=1 dtype=f32 prepack=b layout=") + layout;
    const bool rows = std::string(layout) == "rrr";
    for (const KernelConfig& config : configs_of(problem)) {
      SCOPED_TRACE(problem + " | " + to_string(config));
      const auto kernel = kernel_of(problem, config);
      for (int64_t ldb : {1, 3, 5}) {
        if (rows && ldb < 3) continue;
        std::vector<float> b(16, 100.0f);
        for (int64_t j = 0; j < 3; ++j)
          b[static_cast<size_t>(rows ? j : j * ldb)] = static_cast<float>(j + 1);
        std::vector<char> packed(kernel->packed_b_bytes());
        kernel->pack_b(b.data(), packed.data(), ldb);
        const float a = 2;
        float c[3] = {};
        kernel->run({.a = &a, .b = packed.data(), .c = c});
        for (int j = 0; j < 3; ++j) EXPECT_EQ(c[j], 2.0f * static_cast<float>(j + 1)) << "ldb=" << ldb;
      }
      break;  // what packs is the same for all tiles of a family
    }
  }
}

TEST(PackedSeal, BOfAnotherKernelIsRefused) {
  const std::string problem = "gemm m=5 n=64 k=64 dtype=f32 layout=rrr prepack=b";
  const std::vector<KernelConfig> configs = configs_of(problem);
  ASSERT_GT(configs.size(), 1u);
  const auto kernel = kernel_of(problem, configs[0]);
  const std::vector<float> b(64 * 65, 1.0f);
  const std::vector<char> own = packed_by(*kernel, b);
  EXPECT_EQ(refusal(*kernel, own), "accepted");

  const std::string kOther =
      "buffer b was packed for a kernel of another configuration, or from another kind of B";
  // As many bytes, as from tiles of one width: only the seal tells them apart.
  std::vector<char> foreign = own;
  const std::vector<char> other = packed_by(*kernel_of(problem, configs[1]), b);
  std::copy(other.end() - kPackedSealBytes, other.end(), foreign.end() - kPackedSealBytes);
  EXPECT_EQ(refusal(*kernel, foreign), kOther);

  std::vector<char> unsealed = own;
  std::fill(unsealed.end() - kPackedSealBytes, unsealed.end(), char{0});
  EXPECT_EQ(refusal(*kernel, unsealed), "buffer b was not packed by pack_b");
}

TEST(PackedSeal, NamesWhatPanelsDependOn) {
  const std::string base = "gemm m=5 n=64 k=64 dtype=f32 layout=rrr prepack=b";
  const KernelConfig config = configs_of(base).at(0);
  const auto readers = [&](const std::string& problem) {
    return packed_readers(Problem::parse(problem), config);
  };
  EXPECT_EQ(readers(base),
            readers("gemm m=9 n=64 k=64 dtype=f32 layout=rrr prepack=b epilogue=relu alpha=3"));
  for (const char* other : {"gemm m=5 n=65 k=64 dtype=f32 layout=rrr prepack=b",
                            "gemm m=5 n=64 k=65 dtype=f32 layout=rrr prepack=b",
                            "gemm m=5 n=64 k=64 batch=2 dtype=f32 layout=rrr prepack=b",
                            "gemm m=5 n=64 k=64 dtype=bf16 layout=rrr prepack=b"}) {
    EXPECT_NE(readers(base), readers(other)) << other;
  }
}

}  // namespace
}  // namespace tessera
