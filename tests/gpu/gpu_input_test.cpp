// What a CUDA device refuses, and that everything goes on afterwards. Skipped where there is no device.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "gpu/gpu_device.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr int kSize = 64;
constexpr size_t kBytes = size_t{kSize} * kSize * sizeof(float);

// C = A B of ones, on a device.
class Product {
 public:
  explicit Product(const std::string& device)
      : dispatcher_({.device = device}),
        kernel(dispatcher_.get(Problem::parse("gemm m=64 n=64 k=64 dtype=f32 layout=rrr"))),
        memory(*kernel.memory()) {
    const std::vector<float> ones(kBytes / sizeof(float), 1.0f);
    for (void** p : {&a, &b, &c}) {
      *p = memory.allocate(kBytes);
      memory.upload(*p, ones.data(), kBytes);
    }
  }
  ~Product() {
    for (void* p : {a, b, c}) memory.release(p);
  }
  Product(const Product&) = delete;

  std::string refused(const Buffers& buffers) {
    try {
      kernel.run(buffers);
    } catch (const Error& e) { return e.code() == ErrorCode::bad_input ? e.what() : "another error"; }
    kernel.wait();
    return "";
  }

  void expect_right() {
    memory.fill(c, 0xff, kBytes);
    kernel.run({.a = a, .b = b, .c = c});
    kernel.wait();
    std::vector<float> got(kBytes / sizeof(float));
    memory.download(got.data(), c, kBytes);
    EXPECT_EQ(got, std::vector<float>(got.size(), float{kSize}));
  }

 private:
  Dispatcher dispatcher_;

 public:
  const Kernel& kernel;
  DeviceMemory& memory;
  void *a = nullptr, *b = nullptr, *c = nullptr;
};

#define TSR_NEEDS_GPU() \
  if (!gpu_device()) GTEST_SKIP() << "SKIPPED, nothing was run: " << why_no_gpu()

TEST(GpuInput, BadBuffersAreRefused) {
  TSR_NEEDS_GPU();
  Product p("cuda:0");
  p.expect_right();
  EXPECT_NE(p.refused({.a = nullptr, .b = p.b, .c = p.c}).find("buffer a is null"), std::string::npos);
  EXPECT_NE(p.refused({.a = p.a, .b = static_cast<char*>(p.b) + 2, .c = p.c}).find("not aligned"),
            std::string::npos);
  EXPECT_NE(p.refused({.a = p.a, .b = p.b, .c = p.a}).find("overlaps"), std::string::npos);
  std::vector<float> host(kBytes / sizeof(float), 1.0f);
  const std::string why = p.refused({.a = host.data(), .b = p.b, .c = p.c});
  if (!why.empty()) {
    EXPECT_NE(why.find("buffer a is no memory that cuda:0 can reach"), std::string::npos) << why;
  }
  p.expect_right();
}

TEST(GpuInput, MemoryOfAnotherDeviceIsRefused) {
  TSR_NEEDS_GPU();
  try {
    make_backend("cuda:1");
  } catch (const Error&) { GTEST_SKIP() << "SKIPPED, nothing was run: there is one device"; }
  Product here("cuda:0"), there("cuda:1");
  here.expect_right();
  there.expect_right();
  EXPECT_NE(here.refused({.a = here.a, .b = there.b, .c = here.c}).find("buffer b is memory of device 1"),
            std::string::npos);
  EXPECT_NE(there.refused({.a = there.a, .b = there.b, .c = here.c}).find("buffer c is memory of device 0"),
            std::string::npos);
  here.expect_right();
  there.expect_right();
}

TEST(GpuInput, MemoryThatThereIsNotIsSaid) {
  TSR_NEEDS_GPU();
  Product p("cuda:0");
  try {
    p.memory.allocate(size_t{1} << 46);
    FAIL() << "64 TiB";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::device);
    EXPECT_NE(std::string(e.what()).find("free memory"), std::string::npos) << e.what();
  }
  p.expect_right();
}

// In a process of its own: nothing runs on a context after an illegal access.
TEST(GpuInputDeathTest, ABrokenContextIsNamed) {
  TSR_NEEDS_GPU();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto breaks = [] {
    Product p("cuda:0");
    p.kernel.run_unchecked({.a = p.a, .b = p.b, .c = reinterpret_cast<void*>(0x1000)});
    for (int i = 0; i < 2; ++i) {
      try {
        p.kernel.wait();
        p.kernel.run({.a = p.a, .b = p.b, .c = p.c});
      } catch (const Error& e) {
        std::fputs(e.what(), stderr);
        if (e.code() != ErrorCode::device) std::_Exit(3);
        continue;
      }
      std::_Exit(4);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(breaks(), testing::ExitedWithCode(0), "broke its context");
}

}  // namespace
}  // namespace tessera
