// Convolutions at random sizes against the reference, the reference against oneDNN, and sizes that few
// machines hold.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>

#include "backend/backend.h"
#include "base/text.h"
#include "codegen/render.h"
#include "runtime/kernel_cache.h"
#include "space/rules.h"
#include "space/space.h"
#include "tune/peer.h"
#include "tune/verify.h"

namespace tessera {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  int64_t upto(int64_t most) { return static_cast<int64_t>(bits_() % static_cast<uint64_t>(most)) + 1; }
  bool one_in(int64_t n) { return upto(n) == 1; }
  const char* of(std::initializer_list<const char*> words) {
    return words.begin()[upto(static_cast<int64_t>(words.size())) - 1];
  }

 private:
  std::mt19937_64 bits_;
};

std::string random_problem(Random& r, const std::string& dtype) {
  const std::string op = dtype == "i8" ? "conv_fwd" : r.of({"conv_fwd", "conv_bwd_data", "conv_bwd_weight"});
  const int64_t dims = r.upto(3);
  const bool depthwise = r.one_in(5);
  std::string in, filter, stride, pad, dilation;
  for (int64_t i = 0; i < dims; ++i) {
    const int64_t f = r.one_in(8) ? r.upto(11) : r.upto(3), d = r.upto(3), lo = r.upto(4) - 1,
                  hi = r.one_in(4) ? r.upto(4) - 1 : lo;
    const int64_t least = std::max<int64_t>((f - 1) * d + 1 - lo - hi, 1);
    const std::string x = i ? "x" : "";
    in += x + std::to_string(least + r.upto(dims == 3 ? 4 : 9) - 1);
    filter += x + std::to_string(f);
    stride += x + std::to_string(r.upto(3));
    pad += x + std::to_string(lo) + (hi == lo ? "" : ":" + std::to_string(hi));
    dilation += x + std::to_string(d);
  }
  const int64_t g = depthwise ? r.upto(32) : r.one_in(3) ? r.upto(3) : 1;
  std::string text = op + format(" n=%d g=%d c=%d k=%d", int(r.upto(2)), int(g),
                                 int(depthwise ? 1 : r.upto(20)), int(depthwise ? r.upto(2) : r.upto(40)));
  text += " in=" + in + " filter=" + filter + " stride=" + stride + " pad=" + pad + " dilation=" + dilation +
          " dtype=" + dtype;
  if (op != "conv_bwd_weight" && r.one_in(6)) text += " prepack=b";
  if (r.one_in(5)) text += " layout=channels_first";
  if (op == "conv_bwd_weight" && r.one_in(4)) text += " bias_grad=f32";
  if (r.one_in(6)) text += " alpha=2 beta=1";
  return text;
}

// Kernels by their units, which sizes do not change.
class Kernels {
 public:
  std::unique_ptr<Kernel> make(const Problem& p, const KernelConfig& c) {
    const Source source = render(lower(p), c, backend_->arch());
    auto& module = modules_[source.symbol];
    if (!module) module = backend_->load(cache_.get_or_build(source, *backend_).binary);
    return backend_->prepare(module, p, {.config = c});
  }
  const ArchSpec& arch() const { return backend_->arch(); }

 private:
  std::unique_ptr<Backend> backend_ = make_backend("cpu", 2);
  KernelCache cache_{{}};
  std::map<std::string, std::shared_ptr<Module>> modules_;
};

// Units of cpu_groups are for one filter each: one problem in these many takes them.
constexpr int64_t kWalked = 16;

// Two tiles with vectors of 8 lanes and two with vectors of 16, which every type has.
bool is_one_of_few(const KernelConfig& c) {
  if (c.family_id() == Family::cpu_amx) return c.tile_m == 32 && !c.swap_ab;
  constexpr std::pair<int, int> kTiles[] = {{4, 8}, {3, 24}, {8, 16}, {4, 32}};
  return c.family_id() == Family::cpu_packed &&
         std::count(std::begin(kTiles), std::end(kTiles), std::pair<int, int>(c.tile_m, c.tile_n));
}

// Of the legal configurations one of a few tiles: compiling all would take the time of many problems.
KernelConfig some_config(Random& r, const GemmView& v, const ArchSpec& arch) {
  std::vector<KernelConfig> gather, walk, legal = legal_configs(v, arch);
  for (const KernelConfig& c : legal) {
    if (is_one_of_few(c)) gather.push_back(c);
    if (c.family_id() == Family::cpu_groups) walk.push_back(c);
  }
  const auto& few = r.one_in(kWalked) && !walk.empty() ? walk : gather;
  const auto& from = few.empty() ? legal : few;
  return from[static_cast<size_t>(r.upto(static_cast<int64_t>(from.size())) - 1)];
}

void random_walk(const std::string& dtype, int part, int count) {
  Random r(std::hash<std::string>{}(dtype + std::to_string(part)));
  Kernels kernels;
  for (int i = 0; i < count; ++i) {
    const std::string text = random_problem(r, dtype);
    SCOPED_TRACE(text);
    const Problem p = Problem::parse(text);
    ASSERT_EQ(Problem::parse(to_string(p)), p);
    const KernelConfig c = some_config(r, lower(p), kernels.arch());
    const auto kernel = kernels.make(p, c);
    Operands operands(p, FillKind::integers, static_cast<uint64_t>(i));
    operands.reset_c();
    kernel->run(operands.bind(*kernel));
    const Verification v = Verifier(operands, arithmetic_of(*kernel)).check();
    ASSERT_TRUE(v.ok) << to_string(c) << "\n" << v.failure;
  }
}

// In parts, which run side by side.
struct Draws {
  const char* dtype;
  int part;
};
class ConvRandom : public testing::TestWithParam<Draws> {};

TEST_P(ConvRandom, AgreesWithTheReference) { random_walk(GetParam().dtype, GetParam().part, 140); }

std::vector<Draws> draws() {
  std::vector<Draws> out;
  for (const auto& [dtype, parts] : {std::pair{"f32", 7}, {"bf16", 5}, {"f16", 2}, {"i8", 2}}) {
    for (int part = 0; part < parts; ++part) out.push_back({dtype, part});
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(Types, ConvRandom, testing::ValuesIn(draws()), [](const auto& p) {
  return std::string(p.param.dtype) + "_" + std::to_string(p.param.part);
});

TEST(ConvReference, AgreesWithOneDnn) {
  std::shared_ptr<const Peer> peer;
  try {
    peer = Peer::load("onednn");
  } catch (const std::exception& e) { GTEST_SKIP() << "oneDNN is not here: " << e.what(); }
  Random r(7);
  int compared = 0;
  for (int i = 0; i < 120; ++i) {
    std::string text = random_problem(r, "f32");
    text = text.substr(0, std::min(text.find(" alpha"), text.find(" bias_grad")));
    SCOPED_TRACE(text);
    const Problem p = Problem::parse(text);
    std::string why;
    const auto theirs = peer->prepare(p, 1, &why);
    if (!theirs) continue;
    Operands operands(p, FillKind::uniform, static_cast<uint64_t>(i));
    if (p.prepack_b) theirs->pack_b(operands.b());
    operands.reset_c();
    theirs->run(operands.a(), operands.b(), operands.c());
    const Verification v = Verifier(operands).check();
    EXPECT_TRUE(v.ok) << v.failure;
    ++compared;
  }
  EXPECT_GT(compared, 80);
}

// Images that are zero where nothing was stored, and take memory only where something was read or stored.
class HugeImages {
 public:
  explicit HugeImages(int64_t elements)
      : bytes_(static_cast<size_t>(elements) * sizeof(float)),
        memory_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                     0)) {}
  ~HugeImages() {
    if (there()) munmap(memory_, bytes_);
  }
  HugeImages(const HugeImages&) = delete;
  HugeImages& operator=(const HugeImages&) = delete;

  bool there() const { return memory_ != MAP_FAILED; }
  float* data() const { return static_cast<float*>(memory_); }

 private:
  size_t bytes_;
  void* memory_;
};

// 2^31 pixels and more, of which the four corners are looked at.
class Corners : public testing::Test {
 protected:
  static constexpr int64_t kHeight = 46341, kWidth = 46343;
  static constexpr int64_t kAt[] = {0, kWidth - 1, (kHeight - 1) * kWidth, kHeight* kWidth - 1};

  void SetUp() override {
    if (!images.there()) GTEST_SKIP() << "no address space for images of more than 2^31 pixels";
    for (int i = 0; i < 4; ++i) images.data()[kAt[i]] = static_cast<float>(i + 1);
  }
  std::unique_ptr<Kernel> kernel(const char* op) {
    const Problem p = Problem::parse(format("%s c=1 k=1 in=%dx%d filter=1x1 stride=%dx%d dtype=f32", op,
                                            int(kHeight), int(kWidth), int(kHeight - 1), int(kWidth - 1)));
    const auto legal = legal_configs(lower(p), kernels.arch());
    return legal.empty() ? nullptr : kernels.make(p, legal[0]);
  }
  HugeImages images{kHeight * kWidth};
  Kernels kernels;
};

TEST_F(Corners, ForwardBeyond32BitOffsets) {
  const float filter = 3;
  float out[4] = {};
  const auto forward = kernel("conv_fwd");
  ASSERT_TRUE(forward);
  forward->run({.a = images.data(), .b = &filter, .c = out});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], 3.0f * static_cast<float>(i + 1));
}

TEST_F(Corners, GradientOfFilterBeyond32BitOffsets) {
  const float gradient[4] = {1, 10, 100, 1000};
  float filter = 0;
  const auto weight = kernel("conv_bwd_weight");
  ASSERT_TRUE(weight);
  weight->run({.a = gradient, .b = images.data(), .c = &filter});
  EXPECT_EQ(filter, 4321);
}

TEST(ConvLimits, GradientOfInputBeyond32BitOffsets) {
  // Three pixels behind so much padding that the gradients of their outputs are beyond 2^31 elements.
  constexpr int64_t kPadding = (int64_t{1} << 31) + 5;
  HugeImages gradient(kPadding + 3);
  if (!gradient.there()) GTEST_SKIP() << "no address space";
  for (int i = 0; i < 3; ++i) gradient.data()[kPadding + i] = static_cast<float>(i + 1);
  const Problem p = Problem::parse(
      format("conv_bwd_data c=1 k=1 in=3 filter=1 pad=%lld:0 dtype=f32", static_cast<long long>(kPadding)));
  Kernels kernels;
  const auto legal = legal_configs(lower(p), kernels.arch());
  ASSERT_FALSE(legal.empty());
  const float filter = 3;
  float out[3] = {};
  kernels.make(p, legal[0])->run({.a = gradient.data(), .b = &filter, .c = out});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(out[i], 3.0f * static_cast<float>(i + 1));
}

// Panels wider than any that the space lists are legal too; taps beyond the image are zeros to their full
// width.
TEST(ConvLimits, TilesMayBeWiderThanThoseListed) {
  Kernels kernels;
  int legal = 0;
  for (const char* problem : {"conv_bwd_weight n=1 c=256 k=4 in=4x4 filter=3x3 pad=1x1 dtype=f32",
                              "conv_bwd_weight n=1 c=440 k=3 in=4x4 filter=3x3 pad=1x1 dtype=f32"}) {
    for (const char* tile : {"1x128", "1x256", "1x432"}) {
      const Problem p = Problem::parse(problem);
      const auto config = KernelConfig::parse(std::string("cpu_packed inst=1x16x1 tile=") + tile);
      ASSERT_TRUE(config);
      if (rejected_by(lower(p), *config, kernels.arch())) continue;
      ++legal;
      Operands operands(p, FillKind::integers);
      operands.reset_c();
      const auto kernel = kernels.make(p, *config);
      kernel->run(operands.bind(*kernel));
      EXPECT_EQ(Verifier(operands).check().failure, "") << problem << ' ' << tile;
    }
  }
  EXPECT_EQ(legal, kernels.arch().vector_bits == 512 ? 6 : 0);
}

TEST(ConvLimits, AMillionTermsInOneSum) {
  Kernels kernels;
  for (const char* dtype : {"f32", "bf16"}) {
    const Problem p = Problem::parse(
        std::string("conv_bwd_weight n=1 c=2 k=3 in=1000x1000 filter=3x1 pad=1x0 out=f32 dtype=") + dtype);
    const auto legal = legal_configs(lower(p), kernels.arch());
    ASSERT_FALSE(legal.empty());
    // The widest tile keeps the largest panels.
    const auto kernel =
        kernels.make(p, *std::max_element(legal.begin(), legal.end(),
                                          [](const auto& x, const auto& y) { return x.tile_n < y.tile_n; }));
    EXPECT_LE(kernel->workspace_bytes(), size_t{64} << 20);
    Operands operands(p, FillKind::uniform);
    operands.reset_c();
    kernel->run(operands.bind(*kernel));
    const Verification v = Verifier(operands).check();
    EXPECT_TRUE(v.ok) << v.failure;
    EXPECT_TRUE(v.complete);
  }
}

}  // namespace
}  // namespace tessera
