// Operands of kernels whose memory is not the host's, and the timing of these, on a device of the test's own.
#include "tune/operands.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "tune/replayed.h"

namespace tessera {
namespace {

struct Runs : Recording {
  explicit Runs(int n) : count(n) {}
  double replay() override { return 3.0 * count; }
  int count;
};

struct Device : DeviceMemory {
  void* allocate(size_t bytes) override {
    void* p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    held[p] = bytes;
    return p;
  }
  void release(void* memory) noexcept override {
    held.erase(memory);
    std::free(memory);
  }
  void upload(void* to, const void* from, size_t bytes) override {
    uploaded += bytes;
    std::memcpy(to, from, bytes);
  }
  void download(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* to, unsigned char byte, size_t bytes) override { std::memset(to, byte, bytes); }
  std::unique_ptr<Recording> record(int count, const Enqueue& enqueue) override {
    recorded.push_back(count);
    enqueue(0, this);
    for (int i = 0; i < count; ++i) enqueue(i, this);
    return std::make_unique<Runs>(count);
  }
  std::map<void*, size_t> held;
  size_t uploaded = 0;
  std::vector<int> recorded;
};

struct OnDevice : Kernel {
  OnDevice(Device& d, const Problem& p) : Kernel(p, {}), device(d) {}
  void run(const Buffers& b) const override { run_unchecked(b); }
  void run_unchecked(const Buffers& b) const override {
    runs.push_back(b);
    std::memset(b.c, 0, 4);
  }
  DeviceMemory* memory() const override { return &device; }
  size_t workspace_bytes() const override { return 0; }
  size_t panels_bytes() const override { return 0; }
  void pack_b_unchecked(const void*, void*, int64_t) const override {}
  Device& device;
  mutable std::vector<Buffers> runs;
};

class OperandsOnDevice : public testing::TestWithParam<const char*> {};

TEST_P(OperandsOnDevice, StayWhereTheyAre) {
  const Problem problem = Problem::parse(GetParam());
  Device device;
  {
    const OnDevice kernel(device, problem);
    Operands o(problem, FillKind::uniform);
    const Buffers b = o.bind(kernel);
    EXPECT_EQ(std::memcmp(b.a, o.a(), static_cast<size_t>(o.view().a.extent) * 4), 0);
    std::vector<char> before(static_cast<size_t>(o.view().c.extent) * 4);
    std::memcpy(before.data(), b.c, before.size());
    kernel.run(b);
    o.fetch(kernel);
    EXPECT_EQ(std::memcmp(o.c(), "\0\0\0\0", 4), 0);
    EXPECT_EQ(o.bind(kernel).c, b.c);
    EXPECT_EQ(std::memcmp(b.c, "\0\0\0\0", 4), 0);  // as the run left it
    const size_t uploaded = device.uploaded;
    o.reset_c();
    EXPECT_EQ(o.bind(kernel).c, b.c);
    EXPECT_EQ(std::memcmp(b.c, before.data(), before.size()), 0);
    EXPECT_EQ(device.uploaded - uploaded, problem.beta == 0 ? 0 : before.size());
    o.fetch(kernel);
    EXPECT_EQ(o.damage(), "");
    static_cast<char*>(b.c)[before.size()] = 7;
    o.fetch(kernel);
    EXPECT_EQ(o.damage(), "C on the device: bytes behind its end were written");
    o.reset_c();
    o.bind(kernel);
    static_cast<char*>(b.c)[-1] = 7;
    o.fetch(kernel);
    EXPECT_EQ(o.damage(), "C on the device: bytes before its start were written");
  }
  EXPECT_TRUE(device.held.empty());
}

INSTANTIATE_TEST_SUITE_P(Beta, OperandsOnDevice,
                         testing::Values("gemm m=9 n=7 k=5 dtype=f32",
                                         "gemm m=9 n=7 k=5 dtype=f32 beta=1 epilogue=bias"));

TEST(OperandSets, AreBeyondTheCaches) {
  Device device;
  const auto sets = [&](const char* text) {
    const Problem problem = Problem::parse(text);
    const OnDevice kernel(device, problem);
    Operands o(problem, FillKind::uniform);
    const auto all = o.bind_sets(kernel);
    for (const Buffers& b : all) {
      EXPECT_EQ(std::memcmp(b.b, o.b(), static_cast<size_t>(o.view().b.extent) * 4), 0);
      EXPECT_TRUE(&b == &all[0] || (b.a != all[0].a && b.c != all[0].c));
    }
    return all.size();
  };
  EXPECT_EQ(sets("gemm m=9 n=7 k=5 dtype=f32"), Operands::kMostSets);
  EXPECT_EQ(sets("gemm m=1024 n=1024 k=1024 dtype=f32"), 11u);  // of 12 MiB
  EXPECT_EQ(sets("gemm m=64 n=8192 k=8192 dtype=f32"), 1u);
  EXPECT_TRUE(device.held.empty());
}

TEST(Replayed, RunsOverAllSetsAndRecordsOnlyWhatItMust) {
  Device device;
  const Problem problem = Problem::parse("gemm m=9 n=7 k=5 dtype=f32");
  const OnDevice kernel(device, problem);
  Operands o(problem, FillKind::uniform);
  const auto sets = o.bind_sets(kernel);
  Replayed work(kernel, sets);
  EXPECT_DOUBLE_EQ(work(1), 3);
  EXPECT_EQ(device.recorded, (std::vector<int>{48}));
  ASSERT_EQ(kernel.runs.size(), 49u);
  for (size_t i = 0; i < 48; ++i) {
    EXPECT_EQ(kernel.runs[i + 1].c, sets[i].c);
    EXPECT_EQ(kernel.runs[i + 1].stream, &device);
  }
  EXPECT_DOUBLE_EQ(work(60), 180);
  EXPECT_EQ(device.recorded.size(), 1u);
  EXPECT_DOUBLE_EQ(work(100), 300);
  EXPECT_DOUBLE_EQ(work(100000), 300000);
  EXPECT_EQ(device.recorded, (std::vector<int>{48, 100, 256}));
}

}  // namespace
}  // namespace tessera
