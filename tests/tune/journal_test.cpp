#include "tune/journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "tessera/error.h"

namespace tessera {
namespace {

TEST(Journal, KeepsWhatWasAppendedAcrossOpenings) {
  TempDir dir(temp_directory());
  const std::string path = dir.path() + "/x.journal";
  Journal(path).append({"one", "", "three {\"x\": 1}"});
  Journal(path).append({"four"});
  const std::string text = read_file(path);
  size_t damaged = 7;
  EXPECT_EQ(journal_records(text, &damaged),
            (std::vector<std::string_view>{"one", "", "three {\"x\": 1}", "four"}));
  EXPECT_EQ(damaged, 0u);
}

// A writer may die after any byte: what was whole before stays, and what is appended later is found.
TEST(Journal, TornAtAnyByteLosesOneRecord) {
  TempDir dir(temp_directory());
  const std::string path = dir.path() + "/x.journal", whole = journal_line("first") + journal_line("second");
  const size_t first = journal_line("first").size();
  for (size_t length = 0; length <= whole.size(); ++length) {
    write_file(path, whole.substr(0, length));
    Journal(path).append({"later"});
    const std::string text = read_file(path);
    std::vector<std::string_view> expected;
    if (length >= first - 1) expected.push_back("first");  // its line feed is not part of it
    if (length >= whole.size() - 1) expected.push_back("second");
    expected.push_back("later");
    EXPECT_EQ(journal_records(text), expected) << length;
  }
}

// A disk that is full leaves half of a line, which must not spoil the next one.
TEST(Journal, WhatCouldNotBeAppendedLeavesNothing) {
  TempDir dir(temp_directory());
  const std::string path = dir.path() + "/x.journal";
  Journal journal(path);
  journal.append({"one"});
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto signals = std::signal(SIGXFSZ, SIG_IGN);
  rlimit few = before;
  few.rlim_cur = read_file(path).size() + 20;
  setrlimit(RLIMIT_FSIZE, &few);
  EXPECT_THROW(journal.append({std::string(100, 'x')}), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, signals);
  journal.append({"two"});
  const std::string text = read_file(path);
  size_t damaged = 7;
  EXPECT_EQ(journal_records(text, &damaged), (std::vector<std::string_view>{"one", "two"}));
  EXPECT_EQ(damaged, 0u);
}

TEST(Journal, AnyChangedByteIsNoticed) {
  const std::string line = journal_line("payload");
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    std::string changed = line;
    changed[i] = changed[i] == 'x' ? 'y' : 'x';
    size_t damaged = 0;
    EXPECT_TRUE(journal_records(changed, &damaged).empty()) << i;
    EXPECT_EQ(damaged, 1u);
  }
}

TEST(Journal, HasOneWriter) {
  TempDir dir(temp_directory());
  const std::string path = dir.path() + "/x.journal";
  const Journal first(path);
  EXPECT_THROW(Journal second(path), Error);
}

}  // namespace
}  // namespace tessera
