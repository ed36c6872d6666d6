// How much memory the program takes.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "sanitized.h"

namespace tessera {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(Memory, RunTakesLittleMoreThanItsOperands) {
  if (TESSERA_SANITIZED) GTEST_SKIP() << "built with a sanitizer";
  TempDir dir(temp_directory());
  const std::string said = dir.path() + "/said";
  const pid_t child = fork();
  if (child == 0) {
    const std::string line =
        std::string("exec ") + TESSERA_BINARY_DIR +
        "/bin/tessera run gemm m=2048 n=2048 k=2048 dtype=f32 --threads 2 --budget-ms 100 >" + said + " 2>&1";
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  rusage used{};
  ASSERT_EQ(wait4(child, &status, 0, &used), child);
  EXPECT_EQ(status, 0) << try_read_file(said).value_or("");
  const int64_t operands = 3 * int64_t{2048} * 2048 * 4;
  const int64_t peak = used.ru_maxrss * 1024;
  RecordProperty("peak_mib", static_cast<int>(peak / kMiB));
  EXPECT_GT(peak, operands);
  EXPECT_LE(peak, operands + 64 * kMiB) << peak / kMiB << " MiB";
}

}  // namespace
}  // namespace tessera
