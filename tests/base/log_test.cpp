#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

// What a callback says itself goes to standard error, and it may set another one.
TEST(Log, CallbacksMayLogAndSetAnother) {
  if (log_level() < LogLevel::warn) GTEST_SKIP() << "TESSERA_LOG is quiet";
  std::vector<std::string> heard;
  set_log_sink([&](LogLevel, std::string_view text) {
    heard.emplace_back(text);
    log(LogLevel::warn, "from within");
    set_log_sink([&](LogLevel, std::string_view other) { heard.push_back("second " + std::string(other)); });
  });
  testing::internal::CaptureStderr();
  log(LogLevel::warn, "one");
  log(LogLevel::warn, "two");
  set_log_sink({});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tessera: warn: from within\n");
  EXPECT_EQ(heard, (std::vector<std::string>{"one", "second two"}));
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
