#include "tune/suite.h"

#include <gtest/gtest.h>

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
}

TEST(Suite, EmbeddedSuitesLoad) {
  EXPECT_EQ(read_suite("cpu_gemm.csv").size(), 150u);
  EXPECT_EQ(read_suite("cpu_gemm", {.dtype = "f32"})[0].problem.a, DType::f32);
  EXPECT_THROW(read_suite("nothing.csv"), Error);
}

}  // namespace
}  // namespace tessera
