// Which of several measurements of a pair stays, in whatever order journals are read.
#include "tune/sweep_record.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

SweepRecord record(SweepOutcome outcome, double us, int64_t time) {
  return {.problem = "p",
          .config = "c",
          .outcome = outcome,
          .samples = {},
          .best_us = us,
          .detail = {},
          .time = time};
}

SweepRecord kept(SweepRecord first, SweepRecord second) {
  keep_quickest(first, std::move(second));
  return first;
}

TEST(SweepRecord, OfTwoRightMeasurementsTheQuickerStays) {
  const SweepRecord slow = record(SweepOutcome::ok, 5, 20), quick = record(SweepOutcome::ok, 3, 10);
  EXPECT_EQ(kept(slow, quick).best_us, 3);
  EXPECT_EQ(kept(quick, slow).best_us, 3);
}

TEST(SweepRecord, ElseTheLaterStays) {
  const SweepRecord crash = record(SweepOutcome::crashed, 0, 10), retried = record(SweepOutcome::ok, 3, 20),
                    worse = record(SweepOutcome::failed, 0, 30);
  for (const auto& [earlier, later] : {std::pair{crash, retried}, {retried, worse}, {crash, worse}}) {
    EXPECT_EQ(kept(earlier, later).time, later.time);
    EXPECT_EQ(kept(later, earlier).time, later.time);
  }
  // Of the same second the one that is read last.
  EXPECT_EQ(kept(crash, record(SweepOutcome::ok, 3, 10)).outcome, SweepOutcome::ok);
}

}  // namespace
}  // namespace tessera
