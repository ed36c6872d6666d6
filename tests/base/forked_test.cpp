#include "base/forked.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/error.h"

namespace tessera {
namespace {

bool refuses(const ForkGuard& guard) {
  try {
    guard.refuse("done it", "do not");
  } catch (const Error& e) {
    return e.code() == ErrorCode::device && e.what_happened().find("done it") != std::string::npos;
  }
  return false;
}

template <class F>
int status_in_child(F&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

TEST(ForkGuard, RefusesWhatWasBegunBeforeTheFork) {
  ForkGuard used, fresh;
  used.note();
  EXPECT_FALSE(refuses(used));
  EXPECT_EQ(status_in_child([&] {
              if (!refuses(used) || refuses(fresh)) return 1;
              fresh.note();  // the child's own
              if (refuses(fresh)) return 2;
              return status_in_child([&] { return refuses(fresh) && refuses(used) ? 0 : 3; });
            }),
            0);
  EXPECT_FALSE(refuses(used));
}

}  // namespace
}  // namespace tessera
