#include "runtime/race.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace tessera {
namespace {

// A device whose clock shows what its kernels say they took.
class Device : public DeviceMemory {
 public:
  void* allocate(size_t bytes) override { return std::aligned_alloc(256, (bytes + 255) / 256 * 256); }
  void release(void* memory) noexcept override { std::free(memory); }
  void upload(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* to, unsigned char byte, size_t bytes) override { std::memset(to, byte, bytes); }
  std::unique_ptr<Recording> record(int count, const Enqueue& enqueue) override {
    struct Done : Recording {
      double us = 0;
      double replay() override { return us; }
    };
    auto done = std::make_unique<Done>();
    const double before = clock_us;
    for (int i = 0; i < count; ++i) enqueue(i, this);
    done->us = clock_us - before;
    return done;
  }
  double clock_us = 0;
};

class Timed : public Kernel {
 public:
  Timed(Device* device, double us, int host_us)
      : Kernel(Problem::parse("gemm m=8 n=8 k=8 dtype=f32"), {}),
        device_(device),
        us_(us),
        host_us_(host_us) {}
  void run(const Buffers& b) const override { run_unchecked(b); }
  void run_unchecked(const Buffers&) const override {
    std::this_thread::sleep_for(std::chrono::microseconds(host_us_));
    if (device_) device_->clock_us += us_;
  }
  DeviceMemory* memory() const override { return device_; }
  size_t workspace_bytes() const override { return 0; }
  size_t panels_bytes() const override { return 0; }
  void pack_b_unchecked(const void*, void*, int64_t) const override {}

 private:
  Device* device_;
  double us_;
  int host_us_;
};

TEST(Race, GoesByTheClockOfTheDevice) {
  Device device;
  std::vector<std::unique_ptr<Kernel>> kernels;
  kernels.push_back(std::make_unique<Timed>(&device, 20, 0));  // the quicker one to enqueue
  kernels.push_back(std::make_unique<Timed>(&device, 5, 500));
  const std::vector<double> us = race(kernels, 0.01);
  ASSERT_EQ(us.size(), 2u);
  EXPECT_DOUBLE_EQ(us[0], 20);
  EXPECT_DOUBLE_EQ(us[1], 5);
}

TEST(Race, GoesByTheHostsClockOnTheHost) {
  std::vector<std::unique_ptr<Kernel>> kernels;
  kernels.push_back(std::make_unique<Timed>(nullptr, 0, 3000));
  kernels.push_back(std::make_unique<Timed>(nullptr, 0, 50));
  const std::vector<double> us = race(kernels, 0.01);
  EXPECT_GE(us[0], 3000);
  EXPECT_GE(us[1], 50);
}

}  // namespace
}  // namespace tessera
