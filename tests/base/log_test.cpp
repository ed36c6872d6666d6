#include "base/log.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

TEST(Log, WarnsOncePerKey) {
  testing::internal::CaptureStderr();
  EXPECT_TRUE(warn_once("log_test key", "first"));
  EXPECT_FALSE(warn_once("log_test key", "second"));
  EXPECT_TRUE(warn_once("log_test other key", "third"));
  const std::string text = testing::internal::GetCapturedStderr();
  if (log_level() < LogLevel::warn) return;
  EXPECT_EQ(text, "tessera: warn: first\ntessera: warn: third\n");
}

TEST(Log, ShowsWhatTheLevelAllows) {
  testing::internal::CaptureStderr();
  log(LogLevel::info, "quiet please");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.empty(), log_level() < LogLevel::info);
}

TEST(Log, UnknownLevelIsSaidAloud) {
  setenv("TESSERA_LOG", "loud", 1);
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // a fresh process reads the variable anew
  EXPECT_EXIT(
      {
        log_level();
        _exit(0);
      },
      testing::ExitedWithCode(0), "TESSERA_LOG='loud' is not one of quiet warn info debug");
  unsetenv("TESSERA_LOG");
}

}  // namespace
}  // namespace tessera
