// cpu_groups where results are more than the caches hold.
#include <gtest/gtest.h>

#include "backend/cpu/groups.h"
#include "backend/cpu/kernels.h"

namespace tessera {
namespace {

// Of caches so small that lines are asked for ahead and results go past them: from registers where chunks are
// whole lines of memory, else from where blocks of lines are put together; also to where they are no lines.
TEST(GroupsFar, ResultsFarBeyondTheCaches) {
  const struct {
    const char *problem, *narrow, *wide;  // tiles of eight and of sixteen lanes
    bool streams;
  } cases[] = {
      {"conv_fwd n=2 g=64 c=1 k=1 in=23x21 filter=3x3 pad=1x1 dtype=f32", "4x16", "7x32", true},
      {"conv_fwd n=2 g=80 c=1 k=1 in=23x21 filter=3x3 pad=1x1 dtype=f32", "4x16", "4x64", true},
      {"conv_fwd n=2 g=64 c=1 k=1 in=41x43 filter=5x3 stride=2x2 pad=2x1 dtype=bf16", "4x32", "7x32", true},
      {"conv_fwd n=1 g=2 c=6 k=32 in=23x21 filter=3x3 pad=1x1 dtype=f32", "4x32", "14x16", true},
      {"conv_bwd_data n=2 g=16 c=4 k=4 in=23x21 filter=3x3 stride=2x2 pad=1x1 dtype=f32", "4x32", "7x32",
       true},
      {"conv_bwd_data n=1 g=32 c=2 k=3 in=3x23x21 filter=2x3x3 pad=1x1x1 dtype=bf16", "4x32", "8x32", true},
      {"conv_bwd_data n=2 g=64 c=1 k=1 in=23x21 filter=3x3 dtype=f32 alpha=2 beta=1", "4x32", "7x32", true},
      {"conv_fwd n=2 g=64 c=1 k=1 in=23x21 filter=3x3 pad=1x1 dtype=f32 epilogue=relu", "4x16", "7x32",
       false},
      {"conv_fwd n=2 g=63 c=1 k=1 in=23x21 filter=3x3 pad=1x1 dtype=f32", "4x16", "7x32", false},
      {"conv_fwd n=3 g=5 c=8 k=8 in=5x25x31 filter=2x3x3 stride=1x2x2 pad=1x1x1 dtype=f32", "2x16", "7x32",
       false},
      {"conv_fwd n=2 g=64 c=1 k=1 in=43x41 filter=3x3 pad=1x1 dtype=bf16", "4x16", "14x16", false},
      {"conv_fwd n=2 g=3 c=1 k=21 in=23x21 filter=3x3 pad=1x1 dtype=f32 epilogue=bias,relu", "4x16", "4x64",
       false},
      {"conv_fwd n=2 g=2 c=5 k=24 in=43x41 filter=3x3 pad=1x1 dtype=f32", "4x24", "7x32", false},
      {"conv_fwd n=2 c=3 k=24 in=43x41 filter=3x3 pad=1x1 dtype=bf16", "4x16", "7x32", false},
      {"conv_bwd_data n=2 c=3 k=5 in=53x61 filter=3x3 stride=2x2 pad=1x1 dtype=f32", "4x8", "7x16", false},
      {"conv_bwd_data n=2 g=9 c=8 k=8 in=3x23x21 filter=3x3x3 pad=1x1x1 dtype=f32", "4x16", "7x32", false},
      {"conv_bwd_data n=2 c=8 k=8 in=61x32 filter=3x1 pad=1x0 dtype=f32", "4x16", "7x32", false},
  };
  testing_cpu::LeftOut left_out;
  for (const char* name : {"x86_avx2", "x86_avx512", "x86_avx512_bf16"}) {
    if (left_out(name)) continue;
    const bool wide = find_arch(name).vector_bits == 512;
    ArchSpec arch = find_arch(name);
    arch.compute_units = 3;
    arch.l2.bytes = arch.l3.bytes = 65536;
    for (const auto& at : cases) {
      SCOPED_TRACE(std::string(at.problem) + " | " + name);
      const KernelConfig c =
          testing_cpu::config("cpu_groups tile=" + std::string(wide ? at.wide : at.narrow) +
                              (wide ? " inst=1x16x1" : " inst=1x8x1"));
      const Problem p = Problem::parse(at.problem);
      const Source source = render(lower(p), c, arch);
      EXPECT_EQ(source.text.find("streams") != std::string::npos, at.streams);
      const auto kernel =
          make_groups_kernel(std::make_shared<CpuModule>(testing_cpu::backend(1).compile(source, "")), arch,
                             p, Choice{c, 0, ChoiceSource::explicit_config});
      testing_cpu::expect_right(*kernel);
      if (p.beta != 0) continue;

      Operands operands(p, FillKind::uniform);
      Buffers buffers = operands.bind(*kernel);
      kernel->run(buffers);
      const size_t bytes = operands.view().c.extent * bytes_of(operands.view().c.type);
      std::vector<char> apart(bytes + 128);
      const char* right = static_cast<const char*>(buffers.c);
      char* to = apart.data() + (64 - reinterpret_cast<uintptr_t>(apart.data()) % 64) + 4;
      buffers.c = to;
      kernel->run(buffers);
      EXPECT_TRUE(std::equal(right, right + bytes, to));
    }
  }
}

// Threads that take channels of the same lines could not tell when one is complete: none is put together.
TEST(GroupsFar, LinesThatThreadsShareAreNotPutTogether) {
  if (!testing_cpu::runs_here("x86_avx512")) GTEST_SKIP() << "not this processor";
  const Problem p = Problem::parse("conv_fwd n=2 g=200 c=8 k=3 in=1x124 filter=1x24 stride=1x2 dtype=f32");
  const KernelConfig c = testing_cpu::config("cpu_groups tile=2x32 inst=1x16x1");
  ArchSpec arch = find_arch("x86_avx512");
  arch.l2.bytes = 1 << 20;
  const auto module =
      std::make_shared<CpuModule>(testing_cpu::backend(1).compile(render(lower(p), c, arch), ""));
  const auto workspace = [&](int threads, int64_t last_level) {
    arch.compute_units = threads;
    arch.l3.bytes = last_level;
    return make_groups_kernel(module, arch, p, Choice{c, 0, ChoiceSource::explicit_config})
        ->workspace_bytes();
  };
  EXPECT_GT(workspace(1, 65536), workspace(1, 1 << 30));
  EXPECT_GT(workspace(2, 65536), workspace(2, 1 << 30));
  EXPECT_EQ(workspace(7, 65536), workspace(7, 1 << 30));
}

}  // namespace
}  // namespace tessera
