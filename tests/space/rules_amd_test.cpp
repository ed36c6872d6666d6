#include "rules_test.h"

namespace tessera {
namespace {

const std::string kHalf = "gemm m=1024 n=1024 k=1024 dtype=f16";
const std::string kLegal = " pad=0x0x0 vec=8x8x8";
const std::string kCompv3 = "mfma pipeline=compv3 scheduler=intrawave" + kLegal;

TEST(Rules, AmdCoverAndMembership) {
  const std::string base = kCompv3 + " inst=32x32x16 wave=2x2x1 block=";
  EXPECT_EQ(verdict("gfx942", kHalf, base + "128x128x64"), "");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "96x128x64"), "cover_m");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "32x128x64"), "cover_m");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "128x96x64"), "cover_n");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "128x128x8"), "cover_k");
  EXPECT_EQ(verdict("gfx942", kHalf, kCompv3 + " inst=16x16x16 wave=4x4x1 block=128x128x64"), "wave_grid");
  EXPECT_EQ(verdict("gfx950", kHalf, kCompv3 + " inst=16x16x16 wave=4x4x1 block=128x128x64"), "");
  EXPECT_EQ(verdict("gfx90a", kHalf, kCompv3 + " inst=16x16x16 wave=2x1x1 block=128x128x64"), "wave_grid");
  EXPECT_EQ(verdict("gfx942", kHalf, kCompv3 + " inst=16x16x16 wave=2x1x1 block=128x128x32"), "");
  EXPECT_EQ(verdict("gfx942", kHalf, kCompv3 + " inst=32x32x32 wave=2x2x1 block=128x128x64"), "instruction");
  EXPECT_EQ(verdict("gfx908", kHalf, kCompv3 + " inst=4x64x16 wave=2x2x1 block=128x128x64"), "instruction");
  EXPECT_TRUE(refuses("min_tile", "gfx942", kHalf, "mfma block=8x64x64"));
  EXPECT_FALSE(refuses("min_tile", "gfx942", kHalf, "mfma block=64x64x64 preshuffle=1"));
  EXPECT_TRUE(refuses("min_tile", "gfx942", kHalf, "mfma block=32x64x64 preshuffle=1"));
  EXPECT_TRUE(refuses("tile_align", "gfx942", kHalf, "mfma block=24x64x64"));
  EXPECT_TRUE(refuses("tile_align", "gfx942", kHalf, "mfma block=80x64x64 preshuffle=1"));
}

TEST(Rules, AmdSharedMemory) {
  auto smem = [](const std::string& arch, const std::string& type, const std::string& text) {
    return refuses("smem", arch, "gemm m=1024 n=1024 k=1024 dtype=" + type, "mfma " + text);
  };
  // 256 x 256 x 64 of f16: 64 KiB in all.
  EXPECT_FALSE(smem("gfx942", "f16", "block=256x256x64 pipeline=compv3"));
  EXPECT_TRUE(smem("gfx942", "f16", "block=256x256x128 pipeline=compv3"));
  EXPECT_TRUE(smem("gfx942", "f16", "block=256x256x64 pipeline=compv3 double_buffer=1"));
  EXPECT_TRUE(smem("gfx942", "f16", "block=256x256x64 pipeline=mem double_buffer=1"));
  EXPECT_TRUE(smem("gfx942", "f16", "block=256x256x64 pipeline=compv4 double_buffer=1"));
  EXPECT_FALSE(smem("gfx942", "f16", "block=128x128x64 pipeline=compv4 double_buffer=1"));
  EXPECT_TRUE(smem("gfx942", "f16", "block=256x128x64 pipeline=compv6"));
  EXPECT_TRUE(smem("gfx942", "f32", "block=256x256x64 pipeline=compv3"));
  EXPECT_FALSE(smem("gfx942", "f8e4m3", "block=256x256x128 pipeline=compv3"));
  EXPECT_FALSE(smem("gfx950", "f16", "block=256x256x128 pipeline=compv3"));
  EXPECT_FALSE(smem("gfx950", "f16", "block=256x256x64 pipeline=compv4 double_buffer=1"));
  EXPECT_TRUE(smem("gfx950", "f16", "block=256x256x128 pipeline=compv4 double_buffer=1"));
}

TEST(Rules, AmdTraits) {
  const std::string base = "mfma inst=32x32x16 wave=2x2x1 block=128x128x64" + kLegal + " pipeline=";
  EXPECT_EQ(verdict("gfx942", kHalf, base + "mem scheduler=interwave"), "");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "basic_v1 scheduler=interwave store=cshuffle"), "");
  for (const char* pipeline : {"compv3", "compv4", "compv5", "compv6"}) {
    for (const char* store : {"direct", "cshuffle"}) {
      for (const char* arch : {"gfx908", "gfx90a", "gfx942", "gfx950"}) {
        EXPECT_EQ(
            verdict(arch, kHalf, base + pipeline + " scheduler=interwave double_buffer=1 store=" + store),
            "pipeline_scheduler");
      }
    }
  }
  EXPECT_EQ(verdict("gfx950", kHalf, base + "comp_async scheduler=interwave double_buffer=1"),
            "pipeline_scheduler");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "comp_async scheduler=intrawave double_buffer=1"), "pipeline");
  EXPECT_EQ(verdict("gfx950", kHalf, base + "comp_async scheduler=intrawave double_buffer=1"), "");
  EXPECT_EQ(verdict("gfx950", kHalf, base + "comp_async scheduler=intrawave"), "pipeline_buffers");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "compv4 scheduler=intrawave"), "pipeline_buffers");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "compv4 scheduler=intrawave double_buffer=1"), "");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "preshufflev2"), "pipeline_store");
  EXPECT_TRUE(
      refuses("basic_async_waves", "gfx950", kHalf, "mfma pipeline=basic_async_v1 wave=2x1x1 inst=16x16x32"));
  EXPECT_FALSE(
      refuses("basic_async_waves", "gfx950", kHalf, "mfma pipeline=basic_async_v1 wave=2x2x1 inst=16x16x32"));
  EXPECT_TRUE(
      refuses("basic_async_waves", "gfx950", kHalf, "mfma pipeline=basic_async_v1 wave=2x2x1 inst=32x32x16"));
  EXPECT_TRUE(
      refuses("compv6_loads", "gfx942", kHalf, "mfma pipeline=compv6 block=16x16x64 wave=1x4x1 vec=8x8x8"));
  EXPECT_FALSE(
      refuses("compv6_loads", "gfx942", kHalf, "mfma pipeline=compv6 block=64x64x64 wave=1x4x1 vec=8x8x8"));
}

TEST(Rules, AmdPreshuffle) {
  const std::string p = kHalf + " prepack=b";
  const std::string base = "mfma pipeline=preshufflev2 double_buffer=1 store=cshuffle preshuffle=1" + kLegal;
  EXPECT_EQ(verdict("gfx942", p, base + " inst=16x16x32 wave=1x4x1 block=64x128x64"), "");
  EXPECT_EQ(verdict("gfx942", p + " layout=rrr", base + " inst=16x16x32 wave=1x4x1 block=64x128x64"),
            "preshuffle_layout");
  EXPECT_TRUE(refuses("preshuffle_pipeline", "gfx942", p, "mfma preshuffle=1 pipeline=compv3"));
  EXPECT_TRUE(refuses("preshuffle_pipeline", "gfx942", kHalf, "mfma pipeline=preshufflev2"));
  EXPECT_EQ(verdict("gfx942", "gemm m=1024 n=1024 k=1024 dtype=f32 prepack=b", base), "types");
  EXPECT_EQ(verdict("gfx950", "gemm m=1024 n=1024 k=1024 dtype=i8 prepack=b", base), "types");
  EXPECT_EQ(verdict("gfx942", p, base + " inst=4x64x16 wave=1x4x1 block=64x256x64"), "instruction");
  EXPECT_EQ(verdict("gfx950", p, base + " inst=32x32x32 wave=2x2x1 block=128x128x64"), "");
  EXPECT_EQ(verdict("gfx950", kHalf, kCompv3 + " inst=32x32x32 wave=2x2x1 block=128x128x64"), "instruction");
  // K0 = 64 / 8 = 8, M2 = 64 / 8 = 8: block_m is a multiple of 8 * 4 waves.
  EXPECT_FALSE(refuses("preshuffle_k", "gfx942", p, "mfma preshuffle=1 wave=1x4x1 block=96x128x64"));
  EXPECT_TRUE(refuses("preshuffle_k", "gfx942", p, "mfma preshuffle=1 wave=1x4x1 block=80x128x64"));
  EXPECT_TRUE(
      refuses("preshuffle_k", "gfx942", p, "mfma preshuffle=1 wave=1x4x1 block=96x128x192"));  // K0 = 24
  EXPECT_TRUE(refuses("preshuffle_k", "gfx942", p, "mfma preshuffle=1 wave=1x4x1 block=96x128x60"));
  // 32 * 16 * 2 * 3 / 64 = 48; 16 * 16 * 2 * 1 / 64 = 8.
  EXPECT_FALSE(
      refuses("preshuffle_m", "gfx942", p, "mfma preshuffle=1 wave=1x4x1 inst=32x32x16 block=96x128x64"));
  EXPECT_TRUE(
      refuses("preshuffle_m", "gfx942", p, "mfma preshuffle=1 wave=4x1x1 inst=16x16x16 block=64x128x64"));
}

TEST(Rules, AmdSharingOfTiles) {
  auto a_shared = [](const std::string& layout, const std::string& text) {
    return !refuses("share_a", "gfx942", kHalf + " layout=" + layout, "mfma " + text);
  };
  EXPECT_TRUE(a_shared("rcr", "block=128x128x64 wave=2x2x1 vec=8x8x8"));
  EXPECT_FALSE(a_shared("rcr", "block=128x128x192 wave=2x2x1 vec=8x8x8"));  // 24 lanes along k
  EXPECT_TRUE(a_shared("rcr", "block=16x128x64 wave=1x4x1 vec=8x8x8"));     // 4 elements each
  EXPECT_FALSE(a_shared("rcr", "block=128x128x128 wave=2x2x1 vec=1x1x1"));  // 128 lanes along k
  EXPECT_TRUE(a_shared("rcr", "block=128x128x64 wave=2x2x1 vec=1x1x1"));
  EXPECT_FALSE(a_shared("rcr", "block=3x128x8 wave=2x2x1 vec=8x8x8"));  // fewer elements than lanes
  EXPECT_TRUE(a_shared("crr", "block=128x128x64 wave=2x2x1 vec=8x8x8"));
  EXPECT_FALSE(a_shared("crr", "block=192x128x64 wave=2x2x1 vec=8x8x8"));  // 24 lanes along m
  auto c_shared = [](const std::string& text) {
    return !refuses("share_c", "gfx942", kHalf, "mfma store=cshuffle " + text);
  };
  EXPECT_TRUE(c_shared("block=128x128x64 wave=2x2x1 vec=8x8x8"));
  EXPECT_FALSE(c_shared("block=128x192x64 wave=2x2x1 vec=8x8x8"));
  EXPECT_FALSE(c_shared("block=128x128x64 wave=2x2x1 vec=8x8x1"));
  EXPECT_FALSE(
      refuses("share_c", "gfx942", kHalf, "mfma store=direct block=128x192x64 wave=2x2x1 vec=8x8x8"));
}

TEST(Rules, AmdOddRepeat) {
  auto odd = [](const std::string& text) { return refuses("odd_repeat", "gfx942", kHalf, "mfma " + text); };
  EXPECT_TRUE(odd("store=cshuffle block=192x128x64 wave=2x2x1 inst=32x32x16"));
  EXPECT_TRUE(odd("store=cshuffle block=128x192x64 wave=2x2x1 inst=32x32x16"));
  EXPECT_FALSE(odd("store=direct block=192x128x64 wave=2x2x1 inst=32x32x16"));
  EXPECT_FALSE(odd("store=cshuffle block=192x128x64 wave=2x2x1 inst=16x16x16"));
  EXPECT_FALSE(odd("store=cshuffle block=64x64x64 wave=2x2x1 inst=32x32x16"));
  EXPECT_FALSE(odd("store=cshuffle block=256x256x64 wave=2x2x1 inst=32x32x16"));
}

TEST(Rules, VectorsPadsAndSplits) {
  auto one = [](const std::string& rule, const std::string& problem, const std::string& text) {
    return refuses(rule, "gfx942", problem, "mfma block=128x128x64 " + text);
  };
  EXPECT_FALSE(one("vec_a", kHalf, "vec=8x8x8"));
  EXPECT_TRUE(one("vec_a", kHalf, "vec=16x8x8"));  // 32 bytes
  EXPECT_TRUE(one("vec_a", kHalf, "vec=3x8x8"));
  EXPECT_TRUE(one("vec_a", kHalf, "vec=0x8x8"));
  EXPECT_TRUE(one("vec_a", "gemm m=1024 n=1024 k=1020 dtype=f16", "vec=8x8x8"));
  EXPECT_FALSE(one("vec_a", "gemm m=1024 n=1024 k=1020 dtype=f16", "vec=4x8x8"));
  EXPECT_TRUE(one("vec_a", kHalf + " lda=1028", "vec=8x8x8"));
  EXPECT_TRUE(one("vec_a", kHalf + " batch=2 stride_a=2000004", "vec=8x8x8"));
  EXPECT_TRUE(one("vec_b", "gemm m=1024 n=1022 k=1024 dtype=f16 layout=rrr", "vec=8x8x8"));
  EXPECT_FALSE(one("vec_b", "gemm m=1024 n=1022 k=1024 dtype=f16 layout=rcr", "vec=8x8x8"));
  EXPECT_TRUE(one("vec_c", "gemm m=1024 n=1022 k=1024 dtype=f16", "vec=8x8x8"));
  EXPECT_TRUE(one("vec_c", kHalf + " out=f32", "vec=8x8x8"));
  EXPECT_TRUE(one("pad_m", "gemm m=1000 n=1024 k=1024 dtype=f16", "pad=0x1x1"));
  EXPECT_FALSE(one("pad_m", "gemm m=1000 n=1024 k=1024 dtype=f16", "pad=1x1x1"));
  EXPECT_TRUE(one("pad_n", "gemm m=1024 n=1000 k=1024 dtype=f16", "pad=1x0x1"));
  EXPECT_TRUE(one("pad_k", "gemm m=1024 n=1024 k=1000 dtype=f16", "pad=1x1x0"));
  EXPECT_TRUE(one("pad_k", "gemm m=1024 n=1024 k=192 dtype=f16", "pad=1x1x0 split_k=2"));
  EXPECT_TRUE(one("split_blocks", kHalf, "split_k=17"));
  EXPECT_FALSE(one("split_blocks", kHalf, "split_k=16"));
  EXPECT_TRUE(one("split_k_d", kHalf + " epilogue=add", "split_k=2"));
  EXPECT_FALSE(one("split_k_d", kHalf + " epilogue=relu", "split_k=2"));
  EXPECT_TRUE(one("output", kHalf.substr(0, kHalf.size() - 3) + "bf16 out=f16", ""));
  EXPECT_TRUE(refuses("registers", "gfx942", kHalf, "mfma block=256x256x64 wave=2x1x1"));
  EXPECT_FALSE(refuses("registers", "gfx942", kHalf, "mfma block=256x256x64 wave=2x2x1"));
  EXPECT_TRUE(refuses("registers", "gfx1100", kHalf, "wmma block=256x256x64 wave=2x4x1"));
  EXPECT_FALSE(refuses("registers", "gfx1100", kHalf, "wmma block=128x256x64 wave=2x4x1"));
}

}  // namespace
}  // namespace tessera
