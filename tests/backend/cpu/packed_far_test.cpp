// cpu_packed where operands are more than the caches hold.
#include <gtest/gtest.h>

#include <map>

#include "backend/cpu/kernels.h"
#include "backend/cpu/packed.h"
#include "backend/cpu/packed_plan.h"

namespace tessera {
namespace {

// Lines of a C beyond L2 are fetched where a tile takes long enough for that, and it is written past the
// caches where they do not hold it.
TEST(PackedFar, FetchesCWhereItsTilesTakeLong) {
  ArchSpec arch = find_arch("x86_avx512_bf16");
  const KernelConfig c = testing_cpu::config("cpu_packed inst=1x16x2 tile=5x64");
  const auto far = [&](const char* sizes) {
    const GemmView view = lower(Problem::parse("gemm dtype=bf16 " + std::string(sizes)));
    return PackedPlan(view, c, *arch.find_instruction(view.a.type, view.b.type, c), arch, 1, false).far_c;
  };
  EXPECT_EQ(far("m=20800 n=256 k=12"), tsr::kFarIgnored);
  EXPECT_EQ(far("m=20800 n=256 k=256"), tsr::kFarFetched);
  EXPECT_EQ(far("m=2080000 n=256 k=12"), tsr::kFarStreamed);
  EXPECT_EQ(far("m=200 n=256 k=256"), tsr::kFarIgnored);
  arch.l3.bytes_per_core = 8 << 20;
  EXPECT_EQ(far("m=20800 n=256 k=12"), tsr::kFarIgnored) << "10.6 MB, not twice a core's share";
  arch.l3.bytes_per_core = 4 << 20;
  EXPECT_EQ(far("m=20800 n=256 k=12"), tsr::kFarStreamed);
}

// Of caches so small that rows of C are asked for ahead, or whole tiles written past the caches where rows
// are lines; so is a prepacked B.
TEST(PackedFar, OperandsBeyondTheCaches) {
  std::map<std::string, std::shared_ptr<CpuModule>> modules;
  testing_cpu::LeftOut left_out;
  for (const char* name : {"x86_avx2", "x86_avx512"}) {
    if (left_out(name)) continue;
    ArchSpec arch = find_arch(name);
    arch.compute_units = 1;
    arch.l2.bytes = 8192;
    arch.l3.bytes = 65536;
    const KernelConfig plain =
        testing_cpu::config(std::string_view(name) == "x86_avx2" ? "cpu_packed tile=4x16 inst=1x8x1"
                                                                 : "cpu_packed tile=6x32 inst=1x16x1");
    for (const char* sizes :
         {"m=61 n=96 ldc=96", "m=201 n=96 ldc=96", "m=201 n=96 ldc=97", "m=201 n=101 ldc=112",
          "m=201 n=96 ldc=112 beta=1", "m=201 n=96 ldc=96 epilogue=relu"}) {
      for (const char* k : {"dtype=f32 k=3", "dtype=f32 k=170", "dtype=f32 k=70 prepack=b", "dtype=bf16 k=70",
                            "dtype=f16 k=33", "dtype=bf16 out=f32 k=33"}) {
        const Problem p = Problem::parse("gemm " + std::string(sizes) + " " + k);
        SCOPED_TRACE(to_string(p) + " | " + name);
        KernelConfig c = plain;
        c.preshuffle = p.prepack_b;
        const Source source = render(lower(p), c, arch);
        auto& module = modules[source.symbol];
        if (!module) module = std::make_shared<CpuModule>(testing_cpu::backend(1).compile(source, ""));
        testing_cpu::expect_right(
            *make_packed_kernel(module, arch, p, Choice{c, 0, ChoiceSource::explicit_config}));
      }
    }
  }
}

// Rows that are no lines go past the caches by way of a buffer that holds some of them, in blocks whose next
// rows of A are asked for; where C is added to, they do not.
TEST(PackedFar, RowsOfCThatAreNoLines) {
  const char* name = "x86_avx512_bf16";
  if (!testing_cpu::runs_here(name)) GTEST_SKIP() << "no " << name << " here";
  ArchSpec arch = find_arch(name);
  arch.compute_units = 1;
  arch.l2.bytes = 65536;
  arch.l3.bytes = 65536;
  std::map<std::string, std::shared_ptr<CpuModule>> modules;
  const std::pair<const char*, const char*> kinds[] = {{"dtype=f32 k=3", "tile=6x32 inst=1x16x1"},
                                                       {"dtype=bf16 k=3", "tile=6x32 inst=1x16x2 pack_a=1"},
                                                       {"dtype=bf16 out=f32 k=6", "tile=6x32 inst=1x16x2"},
                                                       {"dtype=i8 k=41", "tile=6x32 inst=1x16x4 pack_a=1"},
                                                       {"dtype=u8xi8 k=24", "tile=6x32 inst=1x16x4"}};
  for (const char* sizes :
       {"m=801 n=97", "m=801 n=101 ldc=115", "m=801 n=97 layout=crr", "m=803 n=99 epilogue=bias,relu",
        "m=801 n=97 beta=1", "m=801 n=97 batch=2", "m=801 n=97 prepack=b"}) {
    for (const auto& [kind, text] : kinds) {
      const Problem p = Problem::parse("gemm " + std::string(sizes) + " " + kind);
      SCOPED_TRACE(to_string(p));
      KernelConfig c = testing_cpu::config(std::string("cpu_packed ") + text);
      c.preshuffle = p.prepack_b;
      const GemmView view = lower(p);
      const bool flips = p.a == DType::i8;
      EXPECT_TRUE(
          PackedPlan(view, c, *arch.find_instruction(view.a.type, view.b.type, c), arch, 1, flips).buffers_c);
      const Source source = render(view, c, arch);
      auto& module = modules[source.symbol];
      if (!module) module = std::make_shared<CpuModule>(testing_cpu::backend(1).compile(source, ""));
      for (const int threads : {1, 3}) {
        arch.compute_units = threads;
        testing_cpu::expect_right(
            *make_packed_kernel(module, arch, p, Choice{c, 0, ChoiceSource::explicit_config}));
      }
      arch.compute_units = 1;
    }
  }
}

}  // namespace
}  // namespace tessera
