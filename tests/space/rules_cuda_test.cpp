#include "rules_test.h"

namespace tessera {
namespace {

TEST(Rules, Cuda) {
  const std::string p = "gemm m=4096 n=4096 k=4096 dtype=bf16";
  const std::string base =
      "tma_ws block=128x256x64 inst=64x256x16 wave=8x1x1 persistent=1 pipeline=cooperative stages=";
  EXPECT_EQ(verdict("sm_90a", p, base + "4"), "");
  EXPECT_EQ(verdict("sm_90a", p, base + "5"), "tma_smem");
  EXPECT_EQ(verdict("sm_90a", p, base + "3 store=cshuffle"), "");
  EXPECT_EQ(verdict("sm_90a", p, base + "4 store=cshuffle"), "");
  EXPECT_EQ(verdict("sm_90a", p, base + "1"), "tma_stages");
  EXPECT_EQ(verdict("sm_90a", p + " lda=4100", base + "4"), "");
  EXPECT_EQ(verdict("sm_90a", "gemm m=4096 n=4097 k=4097 dtype=bf16", base + "4"), "");
  EXPECT_EQ(verdict("sm_90a", "gemm m=4096 n=4097 k=4096 dtype=bf16", base + "4 store=cshuffle"),
            "tma_store");
  EXPECT_EQ(verdict("sm_90a", p, base + "4 cluster=2x1"), "");
  EXPECT_EQ(verdict("sm_90a", p, base + "4 cluster=4x4"), "cluster");
  EXPECT_EQ(verdict("sm_90a", "gemm m=128 n=4096 k=4096 dtype=bf16", base + "4 cluster=2x1"),
            "cluster_blocks");
  EXPECT_EQ(
      verdict("sm_90a", p, "tma_ws block=128x128x64 inst=64x256x16 wave=8x1x1 pipeline=cooperative stages=4"),
      "wgmma_n");
  EXPECT_EQ(
      verdict("sm_90a", p, "tma_ws block=64x128x64 inst=64x128x16 wave=8x1x1 pipeline=cooperative stages=4"),
      "wgmma_m");
  EXPECT_EQ(
      verdict("sm_90a", p, "tma_ws block=128x128x64 inst=64x128x16 wave=6x1x1 pipeline=cooperative stages=4"),
      "wgmma_m");
  EXPECT_EQ(
      verdict("sm_90a", p, "tma_ws block=128x128x32 inst=64x128x16 wave=8x1x1 pipeline=cooperative stages=4"),
      "tma_row");
  EXPECT_EQ(
      verdict("sm_90a", p, "tma_ws block=256x256x64 inst=64x256x16 wave=8x1x1 pipeline=cooperative stages=2"),
      "wgmma_registers");
  EXPECT_EQ(
      verdict("sm_90a", p, "tma_ws block=64x128x64 inst=64x128x16 wave=4x1x1 pipeline=pingpong stages=4"),
      "pingpong_teams");
  // One row of 128 bytes a stage or two.
  const std::string thin = "tma_ws block=64x64x128 inst=64x64x16 wave=4x1x1 pipeline=cooperative stages=4";
  EXPECT_EQ(verdict("sm_90a", p, thin), "");
  EXPECT_EQ(verdict("sm_90a", "gemm m=4096 n=4096 k=4096 dtype=f8e4m3",
                    "tma_ws block=64x64x256 inst=64x64x32 wave=4x1x1 pipeline=cooperative stages=4"),
            "");
  EXPECT_EQ(verdict("sm_90a", "gemm m=4096 n=4096 k=4096 dtype=f8e4m3",
                    "tma_ws block=64x64x512 inst=64x64x32 wave=4x1x1 pipeline=cooperative stages=2"),
            "tma_row");
  EXPECT_EQ(verdict("sm_90a", p, thin + " stream_k=1"), "");
  EXPECT_EQ(verdict("sm_90a", p, thin + " stream_k=1 split_k=2"), "stream_k");
  for (const char* parts : {" split_k=2", " stream_k=1", " cluster_k=2"}) {
    EXPECT_EQ(verdict("sm_90a", p, base + "4" + parts), "") << parts;
    EXPECT_EQ(verdict("sm_90a", p,
                      std::string("tma_ws block=256x192x64 inst=64x192x16 wave=8x1x1 pipeline=cooperative "
                                  "stages=3") +
                          parts),
              "wgmma_parts");
  }
  // A cluster that adds up parts: no more of them than steps, their sums where the stages were.
  EXPECT_EQ(verdict("sm_90a", p, base + "4 cluster_k=8"), "");
  EXPECT_EQ(verdict("sm_90a", p, base + "4 cluster_k=0"), "counts");
  EXPECT_EQ(verdict("sm_90a", p, base + "4 cluster=2x1 cluster_k=4"), "");
  EXPECT_EQ(verdict("sm_90a", p, base + "4 cluster=2x1 cluster_k=5"), "cluster");
  EXPECT_EQ(verdict("sm_90a", p, base + "4 cluster_k=2 split_k=2"), "");
  EXPECT_EQ(verdict("sm_90a", p, base + "4 cluster_k=2 stream_k=1"), "cluster_k");
  EXPECT_EQ(verdict("sm_90a", "gemm m=512 n=512 k=256 dtype=bf16", base + "4 cluster_k=2 split_k=2"), "");
  EXPECT_EQ(verdict("sm_90a", "gemm m=512 n=512 k=192 dtype=bf16", base + "4 cluster_k=2 split_k=2"),
            "cluster_k");
  EXPECT_EQ(verdict("sm_90a", "gemm m=512 n=512 k=192 dtype=bf16", base + "4 cluster_k=3"), "");
  EXPECT_EQ(verdict("sm_90a", "gemm m=512 n=512 k=192 dtype=bf16", base + "4 cluster_k=4"), "cluster_k");
  EXPECT_EQ(verdict("sm_90a", p, base + "2 cluster_k=2"), "cluster_sums");
  const std::string pingpong =
      "tma_ws block=64x128x64 inst=64x128x16 wave=4x1x1 pipeline=pingpong wave_groups=2 stages=4";
  EXPECT_EQ(verdict("sm_90a", p, pingpong), "pingpong_persistent");
  EXPECT_EQ(verdict("sm_90a", p, pingpong + " persistent=1"), "");
  EXPECT_EQ(verdict("sm_90a", p, pingpong + " persistent=1 cluster_k=2"), "cluster_k");
  // One stage more than these does not fit.
  auto fits = [&](const std::string& blocks, int stages) {
    return !refuses("tma_smem", "sm_90a", p, "tma_ws " + blocks + " stages=" + std::to_string(stages));
  };
  EXPECT_TRUE(fits("block=256x128x64 wave=8x1x1", 4) && !fits("block=256x128x64 wave=8x1x1", 5));
  EXPECT_TRUE(fits("block=128x128x64 wave=4x1x1 wave_groups=2", 6));
  EXPECT_FALSE(fits("block=128x128x64 wave=4x1x1 wave_groups=2", 7));
  EXPECT_EQ(verdict("sm_90a", "gemm m=4096 n=4096 k=4096 dtype=f8e4m3 layout=rrr",
                    "tma_ws block=128x128x128 inst=64x128x32 wave=8x1x1 pipeline=cooperative stages=4"),
            "wgmma_k_major");
  EXPECT_EQ(verdict("sm_90a", "gemm m=4096 n=4096 k=4096 dtype=i8",
                    "tma_ws block=128x40x128 inst=64x40x32 wave=8x1x1 pipeline=cooperative stages=4"),
            "instruction");
  // B copied once to where TMA walks it: tma_ws alone takes it, in either operand's place.
  const std::string packed = "gemm m=8 n=4095 k=4097 dtype=bf16 prepack=b";
  EXPECT_EQ(verdict("sm_90a", packed, thin), "prepacked");
  EXPECT_EQ(verdict("sm_90a", packed, thin + " preshuffle=1"), "");
  EXPECT_EQ(verdict("sm_90a", packed, thin + " preshuffle=1 swap_ab=1"), "");
  EXPECT_EQ(verdict("sm_90a", p, thin + " preshuffle=1"), "prepacked");
  EXPECT_EQ(verdict("sm_90a", packed, "gemv inst=16x8x16 wave=1x1x8 tile=8x16 preshuffle=1"), "types");
  EXPECT_EQ(
      verdict(
          "sm_90a", "gemm m=64 n=64 k=64 dtype=f8e4m3 layout=rrr prepack=b",
          "tma_ws block=128x128x128 inst=64x128x32 wave=8x1x1 pipeline=cooperative stages=4 preshuffle=1"),
      "wgmma_k_major");
  const std::string cp = "cp_async inst=16x8x16 wave=4x2x1 block=128x128x32 stages=3 vec=";
  EXPECT_EQ(verdict("sm_80", p, cp + "8x8x1"), "");
  EXPECT_EQ(verdict("sm_80", p, cp + "2x2x1"), "");
  EXPECT_EQ(verdict("sm_80", p, cp + "1x8x1"), "");
  const std::string simt = "simt inst=1x1x1 block=64x64x8 tile=";
  EXPECT_EQ(verdict("sm_80", p, simt + "4x4"), "");
  EXPECT_EQ(verdict("sm_80", p, simt + "1x1"), "simt_threads");
  EXPECT_EQ(verdict("sm_80", p, simt + "2x2"), "simt_threads");
  EXPECT_EQ(verdict("sm_80", p, simt + "3x4"), "simt_threads");
  EXPECT_EQ(verdict("sm_80", p, simt + "64x64"), "simt_threads");
  const std::string gemv = "gemv inst=16x8x16 wave=1x1x8 vec=8x8x1 tile=";
  const char *skinny = "gemm m=4 n=4096 k=4096 dtype=bf16",
             *across = "gemm m=4 n=4096 k=4096 dtype=bf16 layout=rrr";
  EXPECT_EQ(verdict("sm_80", skinny, gemv + "8x16"), "");
  EXPECT_EQ(verdict("sm_80", skinny, gemv + "4x16"), "gemv_rows");
  EXPECT_EQ(verdict("sm_80", p, gemv + "16x16"), "gemv_rows");
  EXPECT_EQ(verdict("sm_80", skinny, gemv + "8x64"), "gemv_columns");
  EXPECT_EQ(verdict("sm_80", across, gemv + "8x64"), "");
}

}  // namespace
}  // namespace tessera
