// Random sequences of calls on live, closed and made-up handles, with good and spoilt texts and buffers: each
// call gives a status that fits, writes its result only with TSR_OK, and no byte beside C.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tessera/tessera.h"

namespace tessera {
namespace {

constexpr const char* kDispatchers[] = {
    R"({"threads": 1, "database": "none"})",
    R"({"device": "null:gfx942", "database": "none"})",
    R"({"device": "null:sm_90a", "policy": "first_legal", "database": "none"})",
    R"({"threads": 1, "policy": "model_topk", "top_k": 2, "database": "none"})",
};
// All tiny: their kernels are compiled once for the whole test.
constexpr const char* kProblems[] = {"gemm m=5 n=16 k=7 dtype=f32 layout=rrr",
                                     "gemm m=5 n=16 k=7 dtype=f32 layout=rrr epilogue=bias,relu"};
constexpr const char* kGpuProblem = "gemm m=128 n=128 k=64 dtype=f16 layout=rcr";
constexpr const char* kRegistries[] = {"", "any *\n", "any cpu_packed\nany cpu_direct priority=2\n"};
constexpr size_t kM = 5, kN = 16, kK = 7, kGuard = 16;

class Sequence {
 public:
  // `alone`: no other sequence is at work in this process, which an interrupt would stop.
  Sequence(uint64_t seed, bool alone) : random_(seed), alone_(alone) {}

  ~Sequence() {
    for (auto& [handle, unused] : dispatchers_) tsr_dispatcher_destroy(handle);
    for (tsr_registry* r : registries_) tsr_registry_destroy(r);
  }

  void step() {
    using Step = void (Sequence::*)();
    constexpr Step kSteps[] = {&Sequence::create,      &Sequence::create,  &Sequence::destroy,
                               &Sequence::get,         &Sequence::get,     &Sequence::get,
                               &Sequence::run,         &Sequence::run,     &Sequence::run,
                               &Sequence::run,         &Sequence::memory,  &Sequence::answers,
                               &Sequence::registry,    &Sequence::foreign, &Sequence::describe,
                               &Sequence::spoilt_text, &Sequence::build,   &Sequence::interrupt};
    (this->*kSteps[below(std::size(kSteps))])();
  }

  size_t ran = 0, refused = 0;  // good calls of kernels; calls that gave another status than TSR_OK

 private:
  size_t below(size_t n) { return random_() % n; }
  template <class T, size_t N>
  const T& one_of(const T (&all)[N]) {
    return all[below(N)];
  }

  // What every call must hold to: no fault of the library's own, and a text where it failed.
  void fits(tsr_status status, std::initializer_list<tsr_status> allowed) {
    EXPECT_NE(std::find(allowed.begin(), allowed.end(), status), allowed.end())
        << "status " << status << ": " << tsr_last_error();
    if (status != TSR_OK) {
      EXPECT_GT(std::strlen(tsr_last_error()), 5u);
      ++refused;
    }
  }

  // A call that answers in text; returns whether it did.
  template <class Call>
  bool text(std::initializer_list<tsr_status> allowed, Call&& call) {
    char* const untouched = reinterpret_cast<char*>(0x5a5a);
    char* out = untouched;
    const tsr_status status = call(&out);
    fits(status, allowed);
    EXPECT_EQ(out != untouched, status == TSR_OK);
    if (status != TSR_OK) return false;
    EXPECT_GT(std::strlen(out), 0u);
    tsr_free(out);
    return true;
  }

  // Some bytes changed, dropped, doubled or put in.
  std::string spoilt(std::string s) {
    for (size_t i = 1 + below(4); i > 0; --i) {
      const size_t at = below(s.size() + 1);
      const char byte = static_cast<char>(1 + below(255));
      switch (below(4)) {
        case 0: s.insert(at, 1, byte); break;
        case 1: s.erase(at, 1 + below(3)); break;
        case 2: s.insert(at, s.substr(at / 2, below(12))); break;
        default:
          if (at < s.size()) s[at] = byte;
      }
    }
    return s;
  }

  tsr_dispatcher* any_dispatcher() {
    if (dispatchers_.empty()) return nullptr;
    auto found = dispatchers_.begin();
    std::advance(found, static_cast<ptrdiff_t>(below(dispatchers_.size())));
    return found->first;
  }

  struct Live {
    tsr_kernel* kernel;
    bool on_cpu, bias;
  };
  // A kernel of a live dispatcher that runs on the CPU.
  const Live* any_kernel() {
    std::vector<const Live*> all;
    for (const auto& [handle, kernels] : dispatchers_) {
      for (const Live& k : kernels) {
        if (k.on_cpu) all.push_back(&k);
      }
    }
    return all.empty() ? nullptr : all[below(all.size())];
  }

  void* dead() {
    if (!closed_.empty() && below(2)) return closed_[below(closed_.size())];
    return reinterpret_cast<void*>(random_() >> below(64));
  }

  void create() {
    if (dispatchers_.size() > 6) return destroy();
    tsr_registry* r = registries_.empty() || below(2) ? nullptr : registries_[below(registries_.size())];
    tsr_dispatcher* d = nullptr;
    const tsr_status status = tsr_dispatcher_create(one_of(kDispatchers), r, nullptr, nullptr, &d);
    fits(status, {TSR_OK});
    if (status == TSR_OK) dispatchers_[d];
  }

  void destroy() {
    tsr_dispatcher* d = any_dispatcher();
    if (!d) return;
    closed_.push_back(d);
    for (const Live& k : dispatchers_[d]) closed_.push_back(k.kernel);
    dispatchers_.erase(d);
    tsr_dispatcher_destroy(d);
    tsr_dispatcher_destroy(d);
    if (closed_.size() > 200) closed_.erase(closed_.begin(), closed_.begin() + 100);
  }

  void get() {
    tsr_dispatcher* d = any_dispatcher();
    if (!d) return create();
    char* json = nullptr;
    ASSERT_EQ(tsr_dispatcher_info(d, &json), TSR_OK);
    const bool on_cpu = std::strstr(json, "null:") == nullptr;
    tsr_free(json);
    const size_t which = below(std::size(kProblems));
    tsr_kernel* k = nullptr;
    // A registry may declare nothing that is legal.
    const tsr_status status = tsr_get(d, on_cpu ? kProblems[which] : kGpuProblem, &k);
    fits(status, {TSR_OK, TSR_UNSUPPORTED});
    EXPECT_EQ(k != nullptr, status == TSR_OK);
    if (k) dispatchers_[d].push_back({k, on_cpu, which == 1});
  }

  void run() {
    const Live* live = any_kernel();
    if (!live) return get();
    std::vector<float> a(kM * kK + 1, 1), b(kK * kN + 1, 2), bias(kN + 1, -10), c(kM * kN + 2 * kGuard, 7);
    const std::vector<float> before = c;
    tsr_buffers buffers;
    std::memset(&buffers, 0, sizeof buffers);
    buffers.size = sizeof buffers;
    buffers.a = a.data();
    buffers.b = b.data();
    buffers.c = c.data() + kGuard;
    buffers.d[0] = live->bias ? bias.data() : nullptr;
    const auto skewed = [](auto*& p) {
      p = reinterpret_cast<std::remove_reference_t<decltype(p)>>(reinterpret_cast<uintptr_t>(p) + 1 + 2);
    };
    bool good = false;
    switch (below(14)) {
      case 0: buffers.size = static_cast<uint32_t>(below(offsetof(tsr_buffers, bias_grad))); break;
      case 1: buffers.flags = 8u << below(28); break;
      case 2: buffers.a = nullptr; break;
      case 3: buffers.c = nullptr; break;
      case 4: skewed(buffers.b); break;
      case 5: skewed(buffers.c); break;
      case 6: buffers.c = b.data(); break;
      default: good = true;
    }
    const tsr_status status = tsr_kernel_run(live->kernel, &buffers);
    fits(status, {good ? TSR_OK : TSR_BAD_INPUT});
    if (good) {
      ++ran;
      const float right = 2.F * kK + (live->bias ? -10.F : 0.F);
      for (size_t i = 0; i < kM * kN; ++i) ASSERT_EQ(c[kGuard + i], right);
      std::copy_n(before.begin(), kM * kN, c.begin() + kGuard);
    }
    EXPECT_EQ(c, before) << "written beside C, or by a refused call";
    EXPECT_EQ(b, std::vector<float>(b.size(), 2));
  }

  void memory() {
    const Live* live = any_kernel();
    if (!live) return;
    void* m = nullptr;
    fits(tsr_allocate(live->kernel, SIZE_MAX - below(256), &m), {TSR_DEVICE});
    EXPECT_EQ(m, nullptr);
    const size_t bytes = below(5000);
    ASSERT_EQ(tsr_allocate(live->kernel, bytes, &m), TSR_OK);
    std::vector<char> from(bytes + 1, 3), to(bytes + 1, 4);
    fits(tsr_copy(live->kernel, m, from.data(), bytes, TSR_TO_DEVICE), {TSR_OK});
    fits(tsr_copy(live->kernel, to.data(), m, bytes, TSR_TO_HOST), {TSR_OK});
    EXPECT_TRUE(std::all_of(to.begin(), to.end() - 1, [](char x) { return x == 3; }));
    EXPECT_EQ(to.back(), 4);
    fits(tsr_copy(live->kernel, nullptr, m, 1, TSR_TO_HOST), {TSR_BAD_INPUT});
    fits(tsr_copy(live->kernel, to.data(), m, 1, static_cast<int>(2 + below(9))), {TSR_BAD_INPUT});
    fits(tsr_release(live->kernel, m), {TSR_OK});
    fits(tsr_release(live->kernel, nullptr), {TSR_OK});
  }

  void answers() {
    tsr_dispatcher* d = any_dispatcher();
    if (!d) return;
    text({TSR_OK, TSR_UNSUPPORTED},
         [&](char** out) { return tsr_explain(d, kGpuProblem, R"({"rejected": true})", out); });
    text({TSR_OK, TSR_UNSUPPORTED}, [&](char** out) { return tsr_emit(d, kGpuProblem, below(2) != 0, out); });
    text({TSR_BAD_INPUT},
         [&](char** out) { return tsr_explain(d, kGpuProblem, R"({"suggest": "no family"})", out); });
    if (const Live* live = any_kernel()) {
      text({TSR_OK}, [&](char** out) { return tsr_kernel_info(live->kernel, out); });
      fits(tsr_kernel_wait(live->kernel), {TSR_OK});
      fits(tsr_kernel_pack_b(live->kernel, nullptr, nullptr, -1), {TSR_BAD_INPUT, TSR_UNSUPPORTED});
    }
  }

  void registry() {
    if (registries_.size() > 5) {
      tsr_registry* r = registries_.back();
      registries_.pop_back();
      tsr_registry_destroy(r);
      closed_.push_back(r);
      return;
    }
    tsr_registry* r = nullptr;
    const std::string name = below(2) ? "plain" : spoilt("name");
    const tsr_status status = tsr_registry_create(name.c_str(), one_of(kRegistries), &r);
    fits(status, {TSR_OK, TSR_BAD_INPUT});
    if (status != TSR_OK) return;
    registries_.push_back(r);
    size_t count = 77;
    const tsr_status added = tsr_registry_add(r, spoilt("any cpu_dot tile=*x16 dtype=f32").c_str(), &count);
    fits(added, {TSR_OK, TSR_BAD_INPUT});
    if (added != TSR_OK) { EXPECT_EQ(count, 77u); }
    text({TSR_OK}, [&](char** out) { return tsr_registry_json(r, out); });
    const auto keep = [](void* user, const char* text) -> int {
      return (std::strlen(text) + *static_cast<size_t*>(user)) % 2 != 0;
    };
    size_t seed = below(2);
    fits(tsr_registry_filter(r, keep, &seed, &count), {TSR_OK});
    fits(tsr_registry_filter(r, nullptr, nullptr, &count), {TSR_BAD_INPUT});
  }

  // Handles that were closed, never were any, or are of another kind.
  void foreign() {
    void* h = dead();
    auto* const as_dispatcher = static_cast<tsr_dispatcher*>(h);
    auto* const as_kernel = static_cast<tsr_kernel*>(h);
    auto* const as_registry = static_cast<tsr_registry*>(h);
    tsr_kernel* k = nullptr;
    tsr_dispatcher* d = nullptr;
    void* m = nullptr;
    tsr_buffers buffers;
    std::memset(&buffers, 0, sizeof buffers);
    buffers.size = sizeof buffers;
    const bool never = !known(h);
    if (never) {
      fits(tsr_get(as_dispatcher, kProblems[0], &k), {TSR_BAD_INPUT});
      fits(tsr_run(as_dispatcher, kProblems[0], &buffers), {TSR_BAD_INPUT});
      text({TSR_BAD_INPUT},
           [&](char** out) { return tsr_explain(as_dispatcher, kProblems[0], nullptr, out); });
      text({TSR_BAD_INPUT}, [&](char** out) { return tsr_dispatcher_info(as_dispatcher, out); });
      text({TSR_BAD_INPUT}, [&](char** out) { return tsr_kernel_info(as_kernel, out); });
      fits(tsr_kernel_run(as_kernel, &buffers), {TSR_BAD_INPUT});
      fits(tsr_kernel_wait(as_kernel), {TSR_BAD_INPUT});
      fits(tsr_allocate(as_kernel, 8, &m), {TSR_BAD_INPUT});
      fits(tsr_release(as_kernel, &m), {TSR_BAD_INPUT});
      text({TSR_BAD_INPUT}, [&](char** out) { return tsr_registry_json(as_registry, out); });
      if (h) fits(tsr_dispatcher_create(nullptr, as_registry, nullptr, nullptr, &d), {TSR_BAD_INPUT});
      tsr_dispatcher_destroy(as_dispatcher);
      tsr_registry_destroy(as_registry);
    }
    if (const Live* live = any_kernel()) {
      fits(tsr_get(reinterpret_cast<tsr_dispatcher*>(live->kernel), kProblems[0], &k), {TSR_BAD_INPUT});
      tsr_dispatcher_destroy(reinterpret_cast<tsr_dispatcher*>(live->kernel));
    }
    EXPECT_EQ(k, nullptr);
    EXPECT_EQ(d, nullptr);
    EXPECT_EQ(m, nullptr);
  }

  // Whether a made-up number is a handle that lives.
  bool known(const void* h) const {
    if (std::find(registries_.begin(), registries_.end(), h) != registries_.end()) return true;
    return std::any_of(dispatchers_.begin(), dispatchers_.end(), [&](const auto& d) {
      return d.first == h ||
             std::any_of(d.second.begin(), d.second.end(), [&](const Live& k) { return k.kernel == h; });
    });
  }

  void describe() {
    constexpr std::array<const char*, 2> kGood[] = {{"problem", "gemm m=5 n=16 k=7 dtype=f32"},
                                                    {"config", "cpu_packed tile=6x64 inst=1x16x1"},
                                                    {"library", ""}};
    const auto& row = one_of(kGood);
    const char *const what = row[0], *const subject = row[1];
    text({TSR_OK}, [&](char** out) { return tsr_describe(what, subject, out); });
    text({TSR_OK, TSR_BAD_INPUT, TSR_UNSUPPORTED},
         [&](char** out) { return tsr_describe(spoilt(what).c_str(), spoilt(subject).c_str(), out); });
  }

  // On a device that plans and compiles nothing: a spoilt text may be a large problem.
  void spoilt_text() {
    tsr_dispatcher* d = nullptr;
    const tsr_status made =
        tsr_dispatcher_create(spoilt(kDispatchers[1]).c_str(), nullptr, nullptr, nullptr, &d);
    fits(made, {TSR_OK, TSR_BAD_INPUT, TSR_UNSUPPORTED, TSR_IO});
    EXPECT_EQ(d != nullptr, made == TSR_OK);
    if (d) tsr_dispatcher_destroy(d);
    d = nullptr;
    ASSERT_EQ(tsr_dispatcher_create(kDispatchers[1], nullptr, nullptr, nullptr, &d), TSR_OK);
    const std::string problem = spoilt(kGpuProblem);
    text({TSR_OK, TSR_BAD_INPUT, TSR_UNSUPPORTED},
         [&](char** out) { return tsr_explain(d, problem.c_str(), nullptr, out); });
    text({TSR_OK, TSR_BAD_INPUT, TSR_UNSUPPORTED}, [&](char** out) {
      return tsr_explain(d, kGpuProblem, spoilt(R"({"rejected": true})").c_str(), out);
    });
    text({TSR_BAD_INPUT}, [&](char** out) { return tsr_measure(d, kGpuProblem, R"({"budget": 1})", out); });
    tsr_dispatcher_destroy(d);
    text({TSR_OK, TSR_BAD_INPUT, TSR_UNSUPPORTED, TSR_IO}, [&](char** out) {
      return tsr_job("pack", spoilt(R"({"action": "list", "path": "/nonexistent"})").c_str(), nullptr,
                     nullptr, out);
    });
  }

  void build() {
    tsr_dispatcher* d = any_dispatcher();
    if (!d) return;
    std::string good = kProblems[0];
    good += "\n# none\n\n";
    size_t calls = 0;
    const auto count = [](void* user, size_t done, size_t total, const char*) {
      *static_cast<size_t*>(user) += done <= total;
    };
    text({TSR_OK}, [&](char** out) { return tsr_build(d, "", 1, count, &calls, out); });
    EXPECT_EQ(calls, 0u);
    text({TSR_BAD_INPUT}, [&](char** out) { return tsr_build(d, "gemm m=1", 1, count, &calls, out); });
    if (any_kernel() == nullptr) return;
    text({TSR_OK}, [&](char** out) {
      return tsr_build(d, good.c_str(), static_cast<int>(below(3)), count, &calls, out);
    });
    EXPECT_EQ(calls, 1u);
  }

  void interrupt() {
    if (!alone_) return;
    tsr_interrupt(1);
    text({TSR_INTERRUPTED},
         [&](char** out) { return tsr_job("cache", R"({"action": "stats"})", nullptr, nullptr, out); });
    tsr_interrupt(0);
    text({TSR_OK}, [&](char** out) { return tsr_describe("problem", kProblems[0], out); });
  }

  std::mt19937_64 random_;
  bool alone_;
  std::map<tsr_dispatcher*, std::vector<Live>> dispatchers_;
  std::vector<tsr_registry*> registries_;
  std::vector<void*> closed_;
};

TEST(CApiSequences, FitWhateverTheyAre) {
  size_t ran = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Sequence sequence(seed, true);
    for (int i = 0; i < 250; ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " step " + std::to_string(i));
      sequence.step();
      if (testing::Test::HasFailure()) return;
    }
    ran += sequence.ran;
    refused += sequence.refused;
  }
  EXPECT_GT(ran, 15u);
  EXPECT_GT(refused, 200u);
}

TEST(CApiSequences, FitBesideEachOther) {
  std::vector<std::thread> threads;
  for (uint64_t seed = 11; seed < 15; ++seed) {
    threads.emplace_back([seed] {
      Sequence sequence(seed, false);
      for (int i = 0; i < 80 && !testing::Test::HasFailure(); ++i) sequence.step();
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace tessera
