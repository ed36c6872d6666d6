// The text form of convolutions, and what is refused.
#include <gtest/gtest.h>

#include <set>

#include "core/tensors.h"
#include "tessera/error.h"
#include "tessera/problem.h"

namespace tessera {
namespace {

const std::string kBase =
    "conv_fwd n=2 g=3 c=4 k=5 in=9x8 filter=3x3 stride=1x1 pad=1x1 dilation=1x1 dtype=f32";

void refused(const std::string& text, const std::string& reason) {
  try {
    Problem::parse(text);
    ADD_FAILURE() << "accepted: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input) << text;
    EXPECT_NE(std::string(e.what()).find(reason), std::string::npos) << text << "\n  " << e.what();
  }
}

// kBase with one word instead of another.
std::string with(const std::string& from, const std::string& to) {
  std::string text = kBase;
  return text.replace(text.find(from), from.size(), to);
}

TEST(ConvProblem, TextRoundTrips) {
  for (const char* text : {
           "conv_fwd n=32 g=4 c=64 k=128 in=56x56 filter=3x3 stride=2x2 pad=1x1 dilation=1x1 dtype=bf16",
           "conv_bwd_data n=1 g=1 c=1 k=1 in=7 filter=3 stride=2 pad=0:1 dilation=2 dtype=f16",
           "conv_bwd_weight n=1 g=8 c=1 k=2 in=4x5x6 filter=1x2x3 stride=1x2x3 pad=0x1:0x2 dilation=3x2x1 "
           "dtype=f32",
           "conv_fwd n=1 g=1 c=8 k=8 in=5x5 filter=1x1 stride=1x1 pad=0x0 dilation=1x1 dtype=u8xi8 "
           "epilogue=bias,quant:0.5:1 out=i8 prepack=b",
           "conv_bwd_weight n=1 g=1 c=8 k=8 in=5x5 filter=1x1 stride=1x1 pad=0x0 dilation=1x1 dtype=bf16 "
           "out=f32 "
           "alpha=2 beta=1",
           "conv_fwd n=1 g=1 c=8 k=8 in=5x5 filter=1x1 stride=1x1 pad=0x0 dilation=1x1 dtype=f32 "
           "layout=channels_first",
           "conv_bwd_weight n=1 g=1 c=8 k=8 in=5x5 filter=1x1 stride=1x1 pad=0x0 dilation=1x1 dtype=f32 "
           "bias_grad=f32 beta=1",
       }) {
    const Problem p = Problem::parse(text);
    EXPECT_EQ(to_string(p), text);
    EXPECT_EQ(Problem::parse(to_string(p)), p);
    EXPECT_EQ(hash(Problem::parse(to_string(p))), hash(p));
  }
}

TEST(ConvProblem, DefaultsAreFilledIn) {
  EXPECT_EQ(
      Problem::parse("conv_fwd dtype=f32 filter=3x3 c=4 k=5 in=9x8 pad=1:1x1 layout=channels_last"),
      Problem::parse("conv_fwd n=1 g=1 c=4 k=5 in=9x8 filter=3x3 stride=1x1 pad=1x1 dilation=1x1 dtype=f32"));
}

TEST(ConvProblem, OneNumberServesAllAxes) {
  EXPECT_EQ(Problem::parse("conv_fwd c=4 k=5 in=9x8x7 filter=3 stride=2 pad=1:2 dilation=1 dtype=f32"),
            Problem::parse("conv_fwd c=4 k=5 in=9x8x7 filter=3x3x3 stride=2x2x2 pad=1:2x1:2x1:2 dtype=f32"));
}

TEST(ConvProblem, HashSeesEveryField) {
  std::set<uint64_t> hashes{hash(Problem::parse(kBase))};
  size_t count = 1;
  for (auto [from, to] : {std::pair{"conv_fwd", "conv_bwd_data"},
                          {"conv_fwd", "conv_bwd_weight"},
                          {"n=2", "n=3"},
                          {"g=3", "g=4"},
                          {"c=4", "c=5"},
                          {"k=5", "k=4"},
                          {"in=9x8", "in=8x9"},
                          {"filter=3x3", "filter=3x2"},
                          {"stride=1x1", "stride=1x2"},
                          {"pad=1x1", "pad=1x1:2"},
                          {"pad=1x1", "pad=1x2:1"},
                          {"dilation=1x1", "dilation=2x1"},
                          {"dtype=f32", "dtype=f16"},
                          {"dtype=f32", "dtype=f32 layout=channels_first"}}) {
    hashes.insert(hash(Problem::parse(with(from, to))));
    EXPECT_EQ(hashes.size(), ++count) << to;
  }
  hashes.insert(hash(Problem::parse(with("conv_fwd", "conv_bwd_weight") + " bias_grad=f32")));
  EXPECT_EQ(hashes.size(), ++count);
}

TEST(ConvProblem, RefusesBrokenText) {
  refused("conv_fwd n=1 c=4 k=5 filter=3x3 dtype=f32", "has no 'in'");
  refused("conv_fwd n=1 c=4 in=9x8 filter=3x3 dtype=f32", "has no 'k'");
  refused(with("filter=3x3", "filter=3x3x3"), "3 axes, and 'in' has 2");
  refused(with("in=9x8", "in=9x8x7x6"), "more than 3 spatial axes");
  refused(with("in=9x8", "in=9x"), "not a 64-bit integer");
  refused(with("stride=1x1", "stride=1:2x1"), "':' is for padding alone");
  refused(kBase + " batch=2", "unknown word 'batch=2'");
  refused(kBase + " lda=9", "unknown word 'lda=9'");
  refused(kBase + " m=9", "unknown word 'm=9'");
  refused(kBase + " layout=rcr", "is of GEMMs");
  refused(kBase + " layout=nchw", "unknown layout 'nchw'");
  refused("gemm m=1 n=1 k=1 dtype=f32 layout=channels_last", "is of convolutions");
  refused("gemm m=1 n=1 k=1 dtype=f32 layout=channels_first", "is of convolutions");
  refused("gemm m=1 n=1 k=1 dtype=f32 in=3x3", "unknown word 'in=3x3'");
  refused("conv m=1", "one of gemm conv_fwd conv_bwd_data conv_bwd_weight");
}

TEST(ConvProblem, RefusesBadSizesWithTheNumber) {
  refused(with("n=2", "n=0"), "n=0 must be at least 1");
  refused(with("g=3", "g=-1"), "g=-1 must be at least 1");
  refused(with("c=4", "c=0"), "c=0 must be at least 1");
  refused(with("k=5", "k=0"), "k=0 must be at least 1");
  refused(with("in=9x8", "in=0x8"), "in is 0 along the height");
  refused(with("filter=3x3", "filter=3x0"), "filter is 0 along the width");
  refused(with("stride=1x1", "stride=0x1"), "stride is 0 along the height");
  refused(with("dilation=1x1", "dilation=1x0"), "dilation is 0 along the width");
  refused(with("pad=1x1", "pad=-1x1"), "pad is -1 along the height");
  refused(with("pad=1x1", "pad=1x1:-2"), "pad is -2 along the width");
  refused(with("filter=3x3", "filter=12x3"), "covers 12 along the height and the padded input has 11");
  refused(with("dilation=1x1", "dilation=1x5"), "covers 11 along the width and the padded input has 10");
}

TEST(ConvProblem, RefusesOverflow) {
  const std::string huge = "9223372036854775807", large = "4294967296";
  for (const char* word : {"n=2", "g=3", "c=4", "k=5"}) {
    refused(with(word, std::string(word).substr(0, 2) + huge), "overflows");
  }
  refused(with("in=9x8", "in=" + huge + "x8"), "overflows");
  refused(with("pad=1x1", "pad=1x" + huge), "overflows");
  refused(with("dilation=1x1", "dilation=" + huge + "x1"), "overflows");
  refused(with("in=9x8", "in=" + large + "x" + large), "overflows");
  refused("conv_fwd n=1000000 c=100000 k=100000 in=1000x1000 filter=3x3 dtype=f32", "overflows");
}

TEST(ConvProblem, RefusesWhatADirectionHasNot) {
  refused(with("conv_fwd", "conv_bwd_data") + " prepack=a", "only B can be prepacked");
  refused(with("conv_fwd", "conv_bwd_weight") + " prepack=b", "whose B is the input");
  refused(with("conv_fwd", "conv_bwd_weight") + " epilogue=relu", "takes no epilogue");
  refused("conv_bwd_data c=4 k=5 in=9 filter=3 dtype=i8", "integers are for conv_fwd");
  refused(kBase + " bias_grad=f32", "output of conv_bwd_weight");
  refused(with("conv_fwd", "conv_bwd_weight") + " bias_grad=bf16", "sums of the gradient are f32");
  refused("conv_bwd_weight c=4 k=5 in=9 filter=3 dtype=f8e4m3 bias_grad=f32", "f32, f16 and bf16");
  refused("gemm m=1 n=1 k=1 dtype=f32 bias_grad=f32", "unknown word");
  refused("conv_bwd_weight c=4 k=5 in=9 filter=3 dtype=f8e4m3 out=f8e4m3 layout=channels_first",
          "f16 or bf16");
  Problem p = Problem::parse(kBase);
  p.m = 3;
  EXPECT_THROW(p.validate(), Error);
  p = Problem::parse("gemm m=1 n=1 k=1 dtype=f32");
  p.conv.n = 2;
  EXPECT_THROW(p.validate(), Error);
}

TEST(ConvProblem, TensorsAreThoseOfTheLayout) {
  const auto fwd = tensors(Problem::parse(kBase + " epilogue=bias,add"));
  ASSERT_EQ(fwd.size(), 5u);
  EXPECT_EQ(fwd[0].shape, (std::vector<int64_t>{2, 9, 8, 3, 4}));
  EXPECT_EQ(fwd[1].shape, (std::vector<int64_t>{3, 5, 3, 3, 4}));
  EXPECT_EQ(fwd[2].shape, (std::vector<int64_t>{2, 9, 8, 3, 5}));
  EXPECT_EQ(fwd[2].bytes, 4 * 2 * 9 * 8 * 3 * 5);
  EXPECT_EQ(fwd[3].shape, (std::vector<int64_t>{15}));
  EXPECT_EQ(fwd[4].shape, fwd[2].shape);
  const auto weight = tensors(Problem::parse(with("conv_fwd", "conv_bwd_weight")));
  EXPECT_EQ(weight[0].shape, fwd[2].shape);
  EXPECT_EQ(weight[1].shape, fwd[0].shape);
  EXPECT_EQ(weight[2].shape, fwd[1].shape);
  const auto bias = tensors(Problem::parse(with("conv_fwd", "conv_bwd_weight") + " bias_grad=f32"));
  ASSERT_EQ(bias.size(), 4u);
  EXPECT_EQ(bias[3].name, "bias_grad");
  EXPECT_EQ(bias[3].shape, (std::vector<int64_t>{15}));
  EXPECT_TRUE(bias[3].written);
  const auto first = tensors(Problem::parse(kBase + " epilogue=bias,add layout=channels_first"));
  EXPECT_EQ(first[0].shape, (std::vector<int64_t>{2, 3, 4, 9, 8}));
  EXPECT_EQ(first[1].shape, (std::vector<int64_t>{3, 5, 4, 3, 3}));
  EXPECT_EQ(first[2].shape, (std::vector<int64_t>{2, 3, 5, 9, 8}));
  EXPECT_EQ(first[3].shape, (std::vector<int64_t>{15}));
  EXPECT_EQ(first[4].shape, first[2].shape);
}

}  // namespace
}  // namespace tessera
