#include "tessera/epilogue.h"

#include <gtest/gtest.h>

#include "common/types.h"

namespace tessera {
namespace {

std::string refusal(std::string_view text) {
  std::string why;
  EXPECT_FALSE(parse_epilogue(text, &why)) << text;
  return why;
}

Epilogue parsed(std::string_view text) {
  std::string why;
  auto e = parse_epilogue(text, &why);
  EXPECT_TRUE(e) << text << ": " << why;
  return e.value_or(Epilogue{});
}

TEST(Epilogue, TextRoundTrips) {
  for (const char* text :
       {"none", "relu", "bias,add,relu", "mul_row,clamp:-1.5:6", "scale:0.1,leaky_relu:0.25",
        "add_row,add_col,mul,mul_col,silu", "quant:0.0078125:-3", "gelu,gelu_tanh,sigmoid,tanh,hardswish"}) {
    EXPECT_EQ(to_string(parsed(text)), text);
    EXPECT_EQ(parsed(to_string(parsed(text))), parsed(text));
  }
}

TEST(Epilogue, EveryKindRoundTripsWithItsDefaults) {
  for (int i = 0; i < kEpilogueKindCount; ++i) {
    const EpilogueKindInfo& kind = info(static_cast<EpilogueKind>(i));
    const Epilogue e = parsed(kind.name);
    ASSERT_EQ(e.count, 1);
    EXPECT_EQ(e.steps[0].kind, static_cast<EpilogueKind>(i));
    EXPECT_EQ(e.steps[0].params, kind.defaults);
    EXPECT_EQ(parsed(to_string(e)), e) << kind.name;
    EXPECT_EQ(e.d_count(), kind.takes_d ? 1 : 0);
  }
}

TEST(Epilogue, DefaultsPrintInFull) {
  EXPECT_EQ(to_string(parsed("clamp")), "clamp:0:6");
  EXPECT_EQ(parsed("clamp"), parsed("clamp:0:6"));
}

TEST(Epilogue, MinusZeroIsZero) { EXPECT_EQ(to_string(parsed("scale:-0")), "scale:0"); }

TEST(Epilogue, RefusesWithTheReason) {
  EXPECT_NE(refusal("").find("unknown epilogue step ''"), std::string::npos);
  EXPECT_NE(refusal("relu,").find("unknown epilogue step ''"), std::string::npos);
  EXPECT_NE(refusal("swish").find("one of bias"), std::string::npos);
  EXPECT_NE(refusal("relu,none").find("unknown epilogue step 'none'"), std::string::npos);
  EXPECT_NE(refusal("relu:1").find("takes 0 number"), std::string::npos);
  EXPECT_NE(refusal("clamp:1").find("takes 2 number"), std::string::npos);
  EXPECT_NE(refusal("clamp:1:2:3").find("takes 2 number"), std::string::npos);
  EXPECT_NE(refusal("clamp:3:2").find("wrong order"), std::string::npos);
  for (const char* text : {"scale:", "scale:x", "scale:nan", "scale:inf", "scale:1e99", "scale:1 "}) {
    EXPECT_NE(refusal(text).find("not a finite number"), std::string::npos) << text;
  }
  EXPECT_NE(refusal("relu,relu,relu,relu,relu,relu,relu,relu,relu").find("more than 8 steps"),
            std::string::npos);
  EXPECT_NE(refusal("add,add,add,add,add,bias").find("more than 5 D tensors"), std::string::npos);
}

// What kernels' sources say of the steps is what the table of this layer says.
TEST(Epilogue, KernelsReadTheSameTensors) {
  for (int i = 0; i < kEpilogueKindCount; ++i) {
    const EpilogueKindInfo& row = info(static_cast<EpilogueKind>(i));
    const auto step = static_cast<tsr::Step>(i);
    EXPECT_EQ(tsr::reads_d(step), row.takes_d) << row.name;
    EXPECT_EQ(tsr::reads_row(step), row.takes_d && row.broadcast == Broadcast::row) << row.name;
    EXPECT_EQ(tsr::reads_column(step), row.takes_d && row.broadcast == Broadcast::column) << row.name;
  }
  EXPECT_EQ(static_cast<int>(tsr::Step::none), kEpilogueKindCount);
}

}  // namespace
}  // namespace tessera
