#include "base/hash.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Hash, IsStableAndLong) {
  EXPECT_EQ(content_hash("abc").size(), kContentHashLength);
  EXPECT_EQ(content_hash("abc"), content_hash("abc"));
  EXPECT_NE(content_hash("abc"), content_hash("abd"));
  EXPECT_EQ(content_hash("abc").find_first_not_of("0123456789abcdef"), std::string::npos);
  // Names of files on disk: a change would orphan every cache.
  EXPECT_EQ(content_hash(""), content_hash({std::string_view()}));
  EXPECT_EQ(content_hash("tessera"), "d4baf640211770ce462a1ad29473ce56");
}

TEST(Hash, PartsHaveBoundaries) {
  EXPECT_NE(content_hash({"ab", "c"}), content_hash({"a", "bc"}));
  EXPECT_NE(content_hash({"a", ""}), content_hash({"a"}));
  EXPECT_EQ(content_hash({"a", "b"}), content_hash({"a", "b"}));
}

}  // namespace
}  // namespace tessera
