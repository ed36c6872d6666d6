// Lists of cores, and threads that are kept on one.
#include "base/cores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tessera/error.h"

namespace tessera {
namespace {

TEST(Cores, ListsAreReadAndWritten) {
  EXPECT_EQ(parse_cores("3"), (std::vector<int>{3}));
  EXPECT_EQ(parse_cores("8,0,2-4"), (std::vector<int>{8, 0, 2, 3, 4}));
  EXPECT_EQ(cores_text({0, 2, 3, 4, 8}), "0,2-4,8");
  EXPECT_EQ(cores_text({8, 0, 1}), "8,0-1");
  EXPECT_EQ(cores_text({}), "");
  for (const char* bad : {"", ",", "1,", "-1", "1-", "4-2", "a", "1 2", "1-2-3", "9999999999", "0-1048576"})
    EXPECT_THROW(parse_cores(bad), Error) << bad;
}

TEST(Cores, PhysicalOnesAreSomeOfThoseAllowed) {
  const std::vector<int> allowed = allowed_cores(), physical = physical_cores();
  ASSERT_FALSE(physical.empty());
  EXPECT_TRUE(std::is_sorted(allowed.begin(), allowed.end()));
  EXPECT_TRUE(std::includes(allowed.begin(), allowed.end(), physical.begin(), physical.end()));
}

TEST(Cores, AThreadStaysOnItsCore) {
  for (int core : allowed_cores()) {
    std::thread([core] {
      run_on_core(core);
      EXPECT_EQ(allowed_cores(), std::vector<int>{core});
      EXPECT_EQ(physical_cores(), std::vector<int>{core});
    }).join();
  }
  EXPECT_THROW(run_on_core(1000000), Error);
}

}  // namespace
}  // namespace tessera
