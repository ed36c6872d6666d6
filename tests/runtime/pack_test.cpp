#include "runtime/pack.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/fs.h"
#include "base/hash.h"
#include "tessera/error.h"

namespace tessera {
namespace {

Source unit(const std::string& name, const std::string& arch = "any") {
  Source s;
  s.arch = arch;
  s.symbol = "tsr_" + name;
  s.unit = "text of " + name;
  return s;
}

class PackTest : public testing::Test {
 protected:
  PackTest() {
    writer_.add(unit("a"), {"tsr_a", std::string(1000, 'a')});
    writer_.add(unit("b", "other"), {"tsr_b", std::string("b\0b", 3)});
    writer_.add(unit("empty"), {"tsr_empty", ""});
    writer_.decide({"any", 2, "gemm m=1 n=2 k=3", "cpu_packed tile=6x16"});
    writer_.write(path_);
  }

  std::string refusal() {
    try {
      Pack::open(path_);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::corrupt);
      EXPECT_NE(std::string(e.what()).find(path_), std::string::npos);
      return e.what();
    }
    return "";
  }

  TempDir dir_{temp_directory()};
  std::string path_ = dir_.path() + "/test.pack";
  PackWriter writer_;
};

TEST_F(PackTest, RoundTrips) {
  auto pack = Pack::open(path_);
  EXPECT_EQ(pack->size(), 3u);
  ASSERT_TRUE(pack->find(unit_key(unit("a"))));
  EXPECT_EQ(pack->find(unit_key(unit("a")))->bytes, std::string(1000, 'a'));
  EXPECT_EQ(pack->find(unit_key(unit("a")))->symbol, "tsr_a");
  EXPECT_EQ(pack->find(unit_key(unit("b", "other")))->bytes, std::string("b\0b", 3));
  EXPECT_EQ(pack->find(unit_key(unit("empty")))->bytes, "");
  EXPECT_FALSE(pack->find(unit_key(unit("b"))));  // another architecture is another kernel
  EXPECT_FALSE(pack->contains("nonsense"));
  ASSERT_NE(pack->decision("any", 2, "gemm m=1 n=2 k=3"), nullptr);
  EXPECT_EQ(pack->decision("any", 2, "gemm m=1 n=2 k=3")->config, "cpu_packed tile=6x16");
  EXPECT_EQ(pack->decision("any", 1, "gemm m=1 n=2 k=3"), nullptr);
  EXPECT_EQ(pack->decision("other", 2, "gemm m=1 n=2 k=3"), nullptr);
  EXPECT_EQ(pack->describe().at("kernels").as_int(), 3);
  EXPECT_TRUE(pack->damaged().empty());
}

TEST_F(PackTest, EqualContentIsAnEqualFile) {
  writer_.add(unit("a"), {"tsr_a", std::string(1000, 'a')});
  writer_.write(dir_.path() + "/again.pack");
  EXPECT_EQ(read_file(path_), read_file(dir_.path() + "/again.pack"));
  PackWriter nothing;
  nothing.write(path_);
  EXPECT_EQ(Pack::open(path_)->size(), 0u);
}

// Its index names other sources, under a checksum of its own.
TEST_F(PackTest, OfAnotherBuildItSaysSo) {
  EXPECT_TRUE(Pack::open(path_)->of_this_build());
  std::string bytes = read_file(path_);
  constexpr std::string_view kKey = "\"sources\":\"";
  const size_t at = bytes.find(kKey);
  ASSERT_NE(at, bytes.npos);
  char& digit = bytes[at + kKey.size()];
  digit = digit == '0' ? '1' : '0';
  constexpr size_t kHeader = 64, kLength = 16, kChecksum = 32;
  uint64_t length = 0;
  std::memcpy(&length, &bytes[kLength], sizeof length);
  const std::string checksum = content_hash(std::string_view(bytes).substr(kHeader, length));
  bytes.replace(kChecksum, checksum.size(), checksum);
  write_file(path_, bytes);
  const auto other = Pack::open(path_);
  EXPECT_FALSE(other->of_this_build());
  EXPECT_TRUE(other->damaged().empty());
  // Nor is what it becomes a part of.
  PackWriter more;
  more.add(unit("c"), {"tsr_c", "c"});
  more.add(*other);
  more.write(dir_.path() + "/more.pack");
  EXPECT_FALSE(Pack::open(dir_.path() + "/more.pack")->of_this_build());
}

TEST_F(PackTest, ReadersKeepTheOldFile) {
  auto old = Pack::open(path_);
  PackWriter().write(path_);
  EXPECT_EQ(old->find(unit_key(unit("a")))->bytes, std::string(1000, 'a'));
}

TEST_F(PackTest, EveryChangedByteIsNoticed) {
  const std::string good = read_file(path_);
  const std::string a(1000, 'a');
  const size_t blob = good.find("aaaaaaaaaaaaaaaa");
  uint64_t index_length = 0;
  memcpy(&index_length, good.data() + 16, sizeof(index_length));
  for (size_t i = 0; i < good.size(); i += i < 64 ? 1 : 7) {
    if (i >= 12 && i < 16) continue;  // reserved
    std::string bad = good;
    bad[i] ^= 0x20;
    write_file(path_, bad);
    bool noticed = false;
    try {
      auto pack = Pack::open(path_);
      auto found = pack->find(unit_key(unit("a")));
      noticed = !found || !pack->damaged().empty();
      if (found && found->bytes != a) ADD_FAILURE() << "wrong bytes served, byte " << i;
    } catch (const Error& e) {
      noticed = true;
      EXPECT_EQ(e.code(), ErrorCode::corrupt) << i;
    }
    const bool padding = i >= 64 + index_length && (i < blob || i >= blob + 1000);  // or the blob of 3 bytes
    EXPECT_TRUE(noticed || padding) << "byte " << i;
  }
}

TEST_F(PackTest, TruncatedFilesAreRefused) {
  const std::string good = read_file(path_);
  for (size_t length = 0; length < good.size(); length += 13) {
    write_file(path_, good.substr(0, length));
    EXPECT_NE(refusal(), "") << length;
  }
  write_file(path_, "not a pack at all, but long enough to hold a header of sixty-four bytes");
  EXPECT_NE(refusal().find("not a pack"), std::string::npos);
}

TEST_F(PackTest, MissingFileIsNotDamage) {
  try {
    Pack::open(dir_.path() + "/absent.pack");
    FAIL();
  } catch (const Error& e) { EXPECT_EQ(e.code(), ErrorCode::io); }
}

TEST_F(PackTest, StandardPacksAreFoundByPath) {
  make_directories(dir_.path() + "/packs");
  writer_.write(dir_.path() + "/packs/standard-any.pack");
  setenv("TESSERA_PACK_PATH", (path_ + ":" + dir_.path() + "/packs").c_str(), 1);
  const auto paths = standard_pack_paths("any");
  ASSERT_GE(paths.size(), 2u);
  EXPECT_EQ(paths[0], path_);
  EXPECT_EQ(paths[1], dir_.path() + "/packs/standard-any.pack");
  EXPECT_EQ(standard_pack_paths("other")[0], path_);
  testing::internal::CaptureStderr();
  setenv("TESSERA_PACK_PATH", (dir_.path() + "/absent").c_str(), 1);
  standard_pack_paths("any");
  unsetenv("TESSERA_PACK_PATH");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("does not exist"), std::string::npos);
}

}  // namespace
}  // namespace tessera
