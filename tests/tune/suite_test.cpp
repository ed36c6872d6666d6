#include "tune/suite.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/fs.h"
#include "tessera/error.h"

namespace tessera {
namespace {

const char* kText =
    "name,op,dtype,layout,m,n,k\n"
    "one,gemm,bf16,rcr,1,2,3\n"
    "two.b,gemm,f32,crr,4,5,6\n";

std::string error_of(const std::string& text) {
  try {
    parse_suite(text, "x.csv");
  } catch (const Error& e) { return e.what(); }
  return "";
}

TEST(Suite, RowsBecomeProblems) {
  const auto rows = parse_suite(kText, "x.csv");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].name, "two.b");
  EXPECT_EQ(to_string(rows[1].problem), "gemm m=4 n=5 k=6 dtype=f32 layout=crr");
}

TEST(Suite, AByteOrderMarkIsNoPartOfTheHeader) {
  EXPECT_EQ(parse_suite(std::string("\xEF\xBB\xBF") + kText, "x.csv").size(), 2u);
}

TEST(Suite, DtypeExtraAndName) {
  const auto rows = parse_suite(kText, "x.csv", {.dtype = "u8xi8", .extra = "prepack=b", .name = "two*"});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(to_string(rows[0].problem), "gemm m=4 n=5 k=6 dtype=u8xi8 layout=crr prepack=b");
}

TEST(Suite, ErrorsNameTheLine) {
  EXPECT_NE(error_of("a,b\n").find("x.csv:1"), std::string::npos);
  EXPECT_NE(error_of("name,op,dtype,layout,m,n,k\none,gemm,bf16,rcr,1,2\n").find("x.csv:2"),
            std::string::npos);
  EXPECT_NE(error_of("name,op,dtype,layout,m,n,k\none,gemm,half,rcr,1,2,3\n").find("half"),
            std::string::npos);
  EXPECT_NE(error_of("name,op,dtype,layout,m,n,k\n").find("no row"), std::string::npos);
  EXPECT_NE(error_of("name,op,dtype,layout,m,n,k\n\"one,gemm,bf16,rcr,1,2,3\n").find("is not closed"),
            std::string::npos);
}

TEST(Suite, CellsMayBeQuotedAndHaveBlanksAround) {
  const auto rows =
      parse_suite("name,op,dtype,layout,m,n,k\n\"a, \"\"b\"\"\", gemm,bf16,rcr, 1, 2 ,3\n", "x.csv");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, "a, \"b\"");
  EXPECT_EQ(to_string(rows[0].problem), "gemm m=1 n=2 k=3 dtype=bf16 layout=rcr");
}

TEST(Suite, ConvolutionsHaveTheAxesOfTheirDimensions) {
  const std::string header =
      "name,op,dtype,ndim,n,g,c,k,di,hi,wi,z,y,x,stride_d,stride_h,stride_w,dil_d,dil_h,dil_w,pad_d,pad_h,"
      "pad_w\n";
  const auto rows = parse_suite(header +
                                    "two,conv_fwd,bf16,2,1,2,3,4,1,9,8,1,3,5,1,2,1,1,1,2,0,1,4\n"
                                    "three,conv_bwd_data,f16,3,1,2,3,4,7,9,8,1,3,3,3,2,1,1,1,1,0,1,1\n",
                                "x.csv", {.dtype = "f32"});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(to_string(rows[0].problem),
            "conv_fwd n=1 g=2 c=3 k=4 in=9x8 filter=3x5 stride=2x1 pad=1x4 dilation=1x2 dtype=f32");
  EXPECT_EQ(
      to_string(rows[1].problem),
      "conv_bwd_data n=1 g=2 c=3 k=4 in=7x9x8 filter=1x3x3 stride=3x2x1 pad=0x1x1 dilation=1x1x1 dtype=f32");
  EXPECT_NE(error_of(header + "two,conv_fwd,bf16,2,1\n").find("x.csv:2"), std::string::npos);
  for (const char* ndim : {"2d", "0", "4"}) {
    const std::string row = ",1,2,3,4,1,9,8,1,3,5,1,2,1,1,1,2,0,1,4\n";
    const std::string error = error_of(header + "two,conv_fwd,bf16," + ndim + row);
    EXPECT_NE(error.find("must be 1, 2 or 3"), std::string::npos) << error;
    EXPECT_NE(error.find("x.csv:2"), std::string::npos) << error;
  }
}

TEST(Suite, EmbeddedSuitesLoad) {
  for (const char* name : {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"}) {
    EXPECT_EQ(read_suite(name).size(), 900u) << name;
    EXPECT_EQ(read_suite(std::string("cpu_") + name).size(), 100u) << name;
  }
  EXPECT_EQ(read_suite("cpu_gemm.csv").size(), 150u);
  EXPECT_EQ(read_suite("cpu_gemm", {.dtype = "f32"})[0].problem.a, DType::f32);
  EXPECT_THROW(read_suite("nothing.csv"), Error);
}

// A file of an embedded suite's name is what was asked for, but not what this program holds.
TEST(Suite, FilesDoNotHideWhatIsEmbedded) {
  const TempDir dir(temp_directory());
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  write_file("gemm.csv", kText);
  const size_t file = read_suite("gemm.csv").size(), embedded = embedded_suite("gemm").size();
  std::filesystem::current_path(before);
  EXPECT_EQ(file, 2u);
  EXPECT_GT(embedded, 100u);
  EXPECT_THROW(embedded_suite("nothing"), Error);
}

}  // namespace
}  // namespace tessera
