#include "runtime/plan_table.h"

#include <gtest/gtest.h>

#include <thread>

namespace tessera {
namespace {

class Nothing : public Kernel {
 public:
  explicit Nothing(const Problem& p) : Kernel(p, {}) {}
  void run(const Buffers&) const override {}
  void run_unchecked(const Buffers&) const override {}
  size_t workspace_bytes() const override { return 0; }
  size_t panels_bytes() const override { return 0; }
  void pack_b_unchecked(const void*, void*, int64_t) const override {}
};

Problem sized(int64_t m) {
  Problem p;
  p.m = m;
  p.n = p.k = 1;
  return p;
}

TEST(PlanTable, FindsWhatWasInsertedAndNothingElse) {
  PlanTable table;
  EXPECT_EQ(table.find(sized(1)), nullptr);
  const Kernel& first = table.insert(std::make_unique<Nothing>(sized(1)));
  EXPECT_EQ(table.find(sized(1)), &first);
  EXPECT_EQ(&table.insert(std::make_unique<Nothing>(sized(1))), &first) << "the first one stays";
  EXPECT_EQ(table.find(sized(2)), nullptr);
  EXPECT_EQ(table.size(), 1u);
}

TEST(PlanTable, GrowsUnderReaders) {
  PlanTable table;
  constexpr int64_t kCount = 5000;
  std::atomic<int64_t> inserted{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      for (int64_t done = 0; done < kCount;) {
        done = inserted.load();
        for (int64_t m = 1; m <= done; m += 97) ASSERT_NE(table.find(sized(m)), nullptr) << m;
      }
    });
  }
  for (int64_t m = 1; m <= kCount; ++m) {
    table.insert(std::make_unique<Nothing>(sized(m)));
    inserted.store(m);
  }
  for (auto& r : readers) r.join();
  EXPECT_EQ(table.size(), static_cast<size_t>(kCount));
  for (int64_t m = 1; m <= kCount; ++m) ASSERT_EQ(table.find(sized(m))->problem().m, m);
}

}  // namespace
}  // namespace tessera
