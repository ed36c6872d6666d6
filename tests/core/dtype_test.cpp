#include "tessera/dtype.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(DType, NamesAndAliasesParseBack) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType t = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(to_string(t)), t);
    EXPECT_EQ(parse_dtype(info(t).alias), t);
    EXPECT_NE(dtype_names().find(to_string(t)), std::string::npos);
  }
}

TEST(DType, UnknownWordsAreRefused) {
  for (const char* word : {"", "half", "F32", "f32 ", "float", "f8", "int4", "i", "e4m3"}) {
    EXPECT_FALSE(parse_dtype(word)) << word;
  }
}

TEST(DType, RowsAreConsistent) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DTypeInfo& row = info(static_cast<DType>(i));
    EXPECT_EQ(info(row.accumulator).is_float, row.is_float) << row.name;
    EXPECT_EQ(bytes_of(row.accumulator), 4) << row.name;
    EXPECT_EQ(info(row.default_out).is_float, row.is_float) << row.name;
    EXPECT_GE(bytes_of(row.default_out), std::min(row.bytes, 2)) << row.name;
  }
  EXPECT_EQ(info(DType::f8e4m3).default_out, DType::f16);
  EXPECT_EQ(info(DType::i8).default_out, DType::i32);
  EXPECT_FALSE(info(DType::i32).operand);
}

}  // namespace
}  // namespace tessera
