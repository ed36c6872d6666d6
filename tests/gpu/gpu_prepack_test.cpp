// B packed once on a device: from lines further apart than they are long, and what is refused. The walk runs
// packed problems against the reference.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gpu/gpu_device.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr int kM = 48, kN = 33, kK = 77, kLdb = 90;

class GpuPrepack : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpu_device()) GTEST_SKIP() << "SKIPPED, nothing was run: " << why_no_gpu();
    dispatcher = std::make_unique<Dispatcher>(DispatcherOptions{.device = "cuda:0"});
  }
  void TearDown() override {
    for (void* p : owned) memory->release(p);
  }
  const Kernel& kernel(const std::string& words) {
    const Kernel& k =
        dispatcher->get(Problem::parse("gemm m=48 n=33 k=77 dtype=f16 out=f32 layout=rcr" + words));
    memory = k.memory();
    return k;
  }
  void* device(const std::vector<uint16_t>& values) {
    void* p = device(values.size() * sizeof(uint16_t));
    memory->upload(p, values.data(), values.size() * sizeof(uint16_t));
    return p;
  }
  void* device(size_t bytes) {
    owned.push_back(memory->allocate(bytes));
    memory->fill(owned.back(), 0xff, bytes);
    return owned.back();
  }

  std::unique_ptr<Dispatcher> dispatcher;
  DeviceMemory* memory = nullptr;
  std::vector<void*> owned;
};

std::string refused(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) { return e.code() == code ? e.what() : std::string("another error: ") + e.what(); }
  return "";
}

// Column j of B is 1 in its j-th element alone and NaN beyond its end, and A counts columns: C[i][j] is j.
TEST_F(GpuPrepack, TakesALeadingDimension) {
  const Kernel& k = kernel(" prepack=b");
  constexpr uint16_t kOne = 0x3c00, kNan = 0x7e00;
  const auto half = [](int count) {  // 0 to 2047, exactly
    int exponent = 0;
    while (count >> (exponent + 1)) ++exponent;
    return static_cast<uint16_t>(count ? (exponent + 15) << 10 | (count << (10 - exponent) & 0x3ff) : 0);
  };
  std::vector<uint16_t> a(size_t{kM} * kK), b(size_t{kN} * kLdb, kNan);
  for (int i = 0; i < kM; ++i)
    for (int x = 0; x < kK; ++x) a[static_cast<size_t>(i * kK + x)] = half(x);
  for (int j = 0; j < kN; ++j)
    for (int x = 0; x < kK; ++x) b[static_cast<size_t>(j * kLdb + x)] = x == j ? kOne : 0;
  void* packed = device(k.packed_b_bytes());
  k.pack_b(device(b), packed, kLdb);
  void* c = device(size_t{kM} * kN * sizeof(float));
  k.run({.a = device(a), .b = packed, .c = c});
  k.wait();
  std::vector<float> got(size_t{kM} * kN), expected(got.size());
  memory->download(got.data(), c, got.size() * sizeof(float));
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<float>(i % kN);
  EXPECT_EQ(got, expected);
}

TEST_F(GpuPrepack, SaysWhatItDoesNotTake) {
  const Kernel& k = kernel(" prepack=b");
  ASSERT_GE(k.packed_b_bytes(), size_t{kN} * kK * 2);
  char* packed = static_cast<char*>(device(k.packed_b_bytes() + 16));
  void *a = device(size_t{kM} * kK * 2), *b = device(size_t{kN} * kLdb * 2), *c = device(size_t{kM} * kN * 4);
  const auto expect = [&](const char* what, const std::function<void()>& call) {
    const std::string said = refused(ErrorCode::bad_input, call);
    EXPECT_NE(said.find(what), std::string::npos) << said;
  };
  expect("leading dimension", [&] { k.pack_b(b, packed, kK - 1); });
  expect("packed is not aligned", [&] { k.pack_b(b, packed + 8); });
  expect("b is not aligned", [&] { k.run({.a = a, .b = packed + 8, .c = c}); });
  EXPECT_EQ(refused(ErrorCode::bad_input, [&] { k.pack_b(b, packed); }), "");
  const Kernel& plain = kernel("");
  EXPECT_EQ(plain.packed_b_bytes(), 0u);
  EXPECT_NE(refused(ErrorCode::unsupported, [&] { plain.pack_b(b, packed); }).find("takes B as it is"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
