#include "tune/database.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "base/fs.h"
#include "tessera/error.h"
#include "tessera/tune_db.h"

namespace tessera {
namespace {

using Mode = Database::Mode;

constexpr const char* kProblem = "gemm m=64 n=64 k=64 dtype=f32 layout=rcr";
constexpr const char* kSlow = "cpu_packed tile=4x32 inst=1x16x1";
constexpr const char* kFast = "cpu_packed tile=6x64 inst=1x16x1";

Measurement measured(const std::string& config, double us, int64_t time = 100) {
  SweepRecord r{.problem = kProblem,
                .config = config,
                .outcome = SweepOutcome::ok,
                .samples = {us, us + 1, us + 0.5},
                .median_us = us + 0.5,
                .best_us = us,
                .detail = "a, \"b\"",
                .time = time};
  return {{"some_arch", 2, "A processor"}, r, "0.0.1"};
}

class DatabaseFile : public testing::Test {
 protected:
  TempDir dir_{temp_directory()};
  std::string path_ = dir_.path() + "/sub/tune.sqlite";
};

TEST_F(DatabaseFile, GivesBackWhatWasAdded) {
  Database db(path_, Mode::write);
  const Measurement m = measured(kSlow, 3);
  EXPECT_EQ(db.add({m, measured(kFast, 2)}), 2u);
  EXPECT_EQ(db.add({m}), 0u);  // the same device, problem, config and time
  EXPECT_EQ(db.add({measured(kSlow, 3, 101)}), 1u);
  std::vector<std::string> all;
  Database(path_, Mode::read).each({}, [&](const Measurement& x) { all.push_back(to_json(x).dump()); });
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], to_json(m).dump());
  EXPECT_EQ(to_json(measurement_from_json(to_json(m))).dump(), to_json(m).dump());
  size_t matching = 0;
  db.each({.config = "* tile=6x64 *", .outcome = "ok"}, [&](const Measurement&) { ++matching; });
  EXPECT_EQ(matching, 1u);
  EXPECT_TRUE(db.verify().empty());
}

// A database of a program that had fewer knobs takes measurements of this one's.
TEST_F(DatabaseFile, GetsTheKnobsThatItLacks) {
  { Database db(path_, Mode::write); }
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &raw), SQLITE_OK);
  for (const char* sql : {"ALTER TABLE config DROP COLUMN split_k", "ALTER TABLE config DROP COLUMN tile_n"})
    ASSERT_EQ(sqlite3_exec(raw, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(raw);
  sqlite3_close(raw);
  Database db(path_, Mode::write);
  EXPECT_EQ(db.add({measured(kSlow, 3)}), 1u);
  EXPECT_TRUE(db.verify().empty());
}

TEST_F(DatabaseFile, AFileThatMayNotBeWrittenIsRefusedWhenItIsOpened) {
  { Database db(path_, Mode::write); }
  chmod(path_.c_str(), 0444);
  if (access(path_.c_str(), W_OK) == 0) GTEST_SKIP() << "this user may write anything";
  EXPECT_THROW(Database(path_, Mode::write), Error);
}

TEST_F(DatabaseFile, BestGoesByTheLatestRightMeasurement) {
  Database db(path_, Mode::write);
  db.add({measured(kSlow, 3), measured(kFast, 2)});
  ASSERT_EQ(db.best({}).size(), 1u);
  EXPECT_EQ(db.best({})[0].config, kFast);
  Measurement wrong = measured(kFast, 1, 200);
  wrong.record.outcome = SweepOutcome::wrong;
  wrong.record.median_us = wrong.record.best_us = 0;
  db.add({wrong});
  EXPECT_EQ(db.best({})[0].config, kSlow);
  EXPECT_TRUE(db.best({.arch = "another"}).empty());
}

// Of two processors of one architecture too, whichever was known first.
TEST_F(DatabaseFile, BestGoesByTheLatestMeasurementOfAnyProcessor) {
  Measurement first = measured(kSlow, 3, 100), second = first;
  second.device.processor = "Another processor";
  second.record.median_us = 2;
  Database db(path_, Mode::write);
  db.add({first, second});
  first.record.time = 300;
  first.record.median_us = 5;
  db.add({first});
  ASSERT_EQ(db.best({}).size(), 1u);
  EXPECT_EQ(db.best({})[0].us, 5);
}

TEST_F(DatabaseFile, MergeIsAUnionAndTheLaterDecisionStays) {
  const std::string other = dir_.path() + "/other.sqlite";
  Database a(path_, Mode::write), b(other, Mode::write);
  a.add({measured(kSlow, 3)});
  b.add({measured(kSlow, 3), measured(kFast, 2)});
  a.decide({{"some_arch", 2, kProblem, kSlow, 3.5, 100}});
  b.decide({{"some_arch", 2, kProblem, kFast, 2.5, 200}});
  EXPECT_EQ(a.merge(other), 1u);
  ASSERT_EQ(a.decisions().size(), 1u);
  EXPECT_EQ(a.decisions()[0].config, kFast);
  EXPECT_EQ(b.merge(path_), 0u);
  EXPECT_EQ(b.decisions()[0].config, kFast);
}

TEST_F(DatabaseFile, NothingOfABadBatchStays) {
  Database db(path_, Mode::write);
  EXPECT_THROW(db.add({measured(kSlow, 3), measured("no such config", 2)}), Error);
  size_t rows = 0;
  db.each({}, [&](const Measurement&) { ++rows; });
  EXPECT_EQ(rows, 0u);
}

// Whatever a query would read.
TEST_F(DatabaseFile, VerifyReadsEveryColumn) {
  const auto change = [&](const char* sql) {
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(other, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(other);
    sqlite3_close(other);
  };
  Database(path_, Mode::write).add({measured(kSlow, 3)});
  EXPECT_TRUE(Database(path_, Mode::read).verify().empty());
  change("UPDATE measurement SET samples = 'a b c'");
  EXPECT_EQ(Database(path_, Mode::read).verify().size(), 1u);
  change("ALTER TABLE measurement RENAME COLUMN anchor_us TO another");
  EXPECT_EQ(Database(path_, Mode::read).verify().size(), 2u);
}

TEST_F(DatabaseFile, DamageIsToldAndARunGoesOnWithout) {
  make_directories(dir_.path() + "/sub");
  write_file(path_, std::string(5000, 'x'));
  EXPECT_THROW(Database(path_, Mode::read), Error);
  EXPECT_THROW(open_decisions(path_, true), Error);
  try {
    Database(dir_.path(), Mode::read);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "io: " + dir_.path() + ": this is a directory; name a file");
  }
  const auto none = open_decisions(path_);
  EXPECT_FALSE(none->find("some_arch", 2, Problem::parse(kProblem)));
  EXPECT_FALSE(open_decisions(dir_.path() + "/missing")->find("some_arch", 2, Problem::parse(kProblem)));
}

TEST_F(DatabaseFile, WhatARaceDecidedIsThereForTheNextProcess) {
  const Problem p = Problem::parse(kProblem);
  std::string why;
  const auto decisions = open_decisions(path_);  // no file yet
  decisions->keep("some_arch", 2, p, {*KernelConfig::parse(kFast, &why), 2.5, ChoiceSource::measured});
  const auto later = open_decisions(path_, true)->find("some_arch", 2, p);
  ASSERT_TRUE(later);
  EXPECT_EQ(to_string(later->config), kFast);
  EXPECT_EQ(later->predicted_us, 2.5);
  EXPECT_EQ(later->source, ChoiceSource::tuned);
  EXPECT_FALSE(decisions->find("some_arch", 2, p)) << "read once, when opened";
  // Nowhere to write: said once, and no more.
  open_decisions("")->keep("some_arch", 2, p, *later);
  write_file_whole(path_ + ".file", "");
  open_decisions(path_ + ".file/tune.sqlite")->keep("some_arch", 2, p, *later);
}

TEST_F(DatabaseFile, ADispatcherDoesNotHangOnAnothersLock) {
  Database(path_, Mode::write).decide({{"some_arch", 2, kProblem, kFast, 2.5, 200}});
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto began = std::chrono::steady_clock::now();
  const auto none = open_decisions(path_);
  EXPECT_FALSE(none->find("some_arch", 2, Problem::parse(kProblem)));
  std::string why;
  none->keep("some_arch", 2, Problem::parse(kProblem),
             {*KernelConfig::parse(kSlow, &why), 2.5, ChoiceSource::measured});
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  sqlite3_close(other);
  EXPECT_TRUE(open_decisions(path_)->find("some_arch", 2, Problem::parse(kProblem)));
}

TEST_F(DatabaseFile, DecisionsAreForTheirDevice) {
  Database(path_, Mode::write).decide({{"some_arch", 2, kProblem, kFast, 2.5, 200}});
  const auto decisions = open_decisions(path_);
  const auto choice = decisions->find("some_arch", 2, Problem::parse(kProblem));
  ASSERT_TRUE(choice);
  EXPECT_EQ(to_string(choice->config), kFast);
  EXPECT_EQ(choice->source, ChoiceSource::tuned);
  EXPECT_FALSE(decisions->find("some_arch", 1, Problem::parse(kProblem)));
  EXPECT_FALSE(decisions->find("other_arch", 2, Problem::parse(kProblem)));
  EXPECT_FALSE(decisions->find("some_arch", 2, Problem::parse("gemm m=65 n=64 k=64 dtype=f32")));
}

}  // namespace
}  // namespace tessera
