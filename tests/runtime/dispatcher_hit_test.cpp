// The in-process hit: Dispatcher::get of a problem it has a kernel for allocates nothing and enters the
// kernel of the operating system not once.
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "sanitized.h"
#include "tessera/dispatcher.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

#if !TESSERA_SANITIZED
// Not inlined: seen together, malloc and delete look like a mismatch to a compiler.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
#endif

namespace tessera {
namespace {

class Hit : public testing::Test {
 protected:
  void SetUp() override {
    if (TESSERA_SANITIZED) GTEST_SKIP() << "built with a sanitizer";
    for (const char* text :
         {"gemm m=33 n=20 k=17 dtype=f32", "gemm m=1 n=20 k=17 dtype=f32",
          "gemm m=33 n=20 k=17 dtype=f32 layout=rrr epilogue=bias,clamp:-1:1,gelu beta=2"}) {
      problems_.push_back(Problem::parse(text));
      kernels_.push_back(&dispatcher_.get(problems_.back()));
      Problem strides = problems_.back();  // said, which the text form leaves out
      strides.lda = strides.k;
      strides.ldc = strides.n;
      strides.stride_c = strides.m * strides.n;
      problems_.push_back(strides);
      kernels_.push_back(kernels_.back());
    }
  }

  size_t look_up() {
    size_t found = 0;
    for (int i = 0; i < 100; ++i) {
      for (size_t p = 0; p < problems_.size(); ++p) found += &dispatcher_.get(problems_[p]) == kernels_[p];
    }
    return found;
  }

  Dispatcher dispatcher_{{.threads = 1}};
  std::vector<Problem> problems_;
  std::vector<const Kernel*> kernels_;
};

TEST_F(Hit, AllocatesNothing) {
  const int64_t before = allocations;
  EXPECT_EQ(look_up(), 600u);
  EXPECT_EQ(allocations, before);
  int* counted = new int(1);
  asm volatile("" ::"r"(counted));  // or the pair would be left out
  delete counted;
  EXPECT_EQ(allocations, before + 1) << "allocations are not counted";
}

TEST_F(Hit, MakesNoSystemCall) {
  // Strict mode kills a process at any call but read, write and exit.
  const auto status_of = [](auto&& body) {
    const pid_t child = fork();
    if (child == 0) {
      if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) _exit(77);
      body();
      syscall(SYS_exit, 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  };
  const int bad = status_of([] { syscall(SYS_getppid); });
  if (WIFEXITED(bad) && WEXITSTATUS(bad) == 77) GTEST_SKIP() << "no seccomp here";
  EXPECT_TRUE(WIFSIGNALED(bad) && WTERMSIG(bad) == SIGKILL) << "system calls are not noticed";
  EXPECT_EQ(status_of([&] {
              if (look_up() != 600) syscall(SYS_exit, 1);
            }),
            0);
}

}  // namespace
}  // namespace tessera
