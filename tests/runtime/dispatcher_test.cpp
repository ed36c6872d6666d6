#include "tessera/dispatcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "base/fs.h"
#include "sanitized.h"
#include "tessera/error.h"
#include "tessera/registry.h"

namespace tessera {
namespace {

// One kernel cache for all tests of this program, so that a unit is compiled once.
DispatcherOptions options() {
  static const TempDir dir(temp_directory());
  DispatcherOptions o;
  o.cache_dir = dir.path();
  o.threads = 1;
  return o;
}

const char* kProblem = "gemm m=33 n=20 k=17 dtype=f32 layout=rrr";

struct Operands {
  explicit Operands(const Problem& p)
      : a(static_cast<size_t>(p.m * p.k), 1.f),
        b(static_cast<size_t>(p.k * p.n), 2.f),
        c(static_cast<size_t>(p.m * p.n), -1.f) {}
  Buffers buffers() { return {.a = a.data(), .b = b.data(), .c = c.data()}; }
  std::vector<float> a, b, c;
};

TEST(Dispatcher, RunsAGemm) {
  Dispatcher d(options());
  const Problem p = Problem::parse(kProblem);
  Operands x(p);
  d.run(p, x.buffers());
  for (float v : x.c) ASSERT_EQ(v, 34.f);
}

TEST(Dispatcher, HitsInMemoryTheSecondTime) {
  Dispatcher d(options());
  const Problem p = Problem::parse(kProblem);
  BuildInfo first, second;
  const Kernel& kernel = d.get(p, &first);
  EXPECT_EQ(&d.get(p, &second), &kernel);
  EXPECT_EQ(second.from, BuildInfo::From::memory);
  EXPECT_EQ(kernel.problem(), p);
  EXPECT_EQ(kernel.choice().source, ChoiceSource::model);
  EXPECT_GT(kernel.choice().predicted_us, 0);
}

TEST(Dispatcher, RefusalsAreExplainedWhereNothingIsLegal) {
  DispatcherOptions o = options();
  o.device = "null:gfx942";
  Dispatcher d(o);
  const Problem p = Problem::parse("gemm m=512 n=512 k=512 dtype=f32 prepack=b");
  for (const bool with_rejected : {false, true}) {
    const Explanation e = d.explain(p, with_rejected);
    EXPECT_TRUE(e.candidates.empty());
    EXPECT_EQ(e.rejected.empty(), !with_rejected);
    EXPECT_NE(e.why_none.find("no legal configuration on gfx942"), std::string::npos) << e.why_none;
  }
}

TEST(Dispatcher, ARegistryBindsAnExplicitConfig) {
  DispatcherOptions o = options();
  o.policy = Policy::explicit_config;
  o.device = "null:x86_avx2";
  o.config = "cpu_packed tile=4x16 inst=1x8x1";
  o.registry = Registry::parse("exact cpu_packed tile=6x16 inst=1x8x1", "mine");
  EXPECT_THROW(Dispatcher(o).select(Problem::parse(kProblem)), Error);
  o.config = "cpu_packed tile=6x16 inst=1x8x1";
  EXPECT_EQ(Dispatcher(o).select(Problem::parse(kProblem)).source, ChoiceSource::explicit_config);
}

TEST(Dispatcher, ChoiceIsDeterministicAndExplained) {
  Dispatcher d(options()), e(options());
  const Problem p = Problem::parse("gemm m=129 n=500 k=70 dtype=bf16");
  const Explanation x = d.explain(p, true);
  EXPECT_EQ(x.choice.config, e.select(p).config);
  EXPECT_EQ(x.candidates[0].config, x.choice.config);
  for (size_t i = 1; i < x.candidates.size(); ++i) {
    EXPECT_LE(x.candidates[i - 1].predicted_us, x.candidates[i].predicted_us);
  }
  EXPECT_FALSE(x.rejected.empty());
  for (const auto& r : x.rejected) {
    EXPECT_FALSE(r.rule.empty());
    EXPECT_FALSE(r.reason.empty());
  }
}

TEST(Dispatcher, PoliciesChooseAsTheySay) {
  const Problem p = Problem::parse(kProblem);
  DispatcherOptions o = options();
  o.policy = Policy::first_legal;
  const Choice first = Dispatcher(o).select(p);
  EXPECT_EQ(first.source, ChoiceSource::first_legal);

  o = options();
  o.policy = Policy::explicit_config;
  o.config = to_string(first.config);
  EXPECT_EQ(Dispatcher(o).select(p).config, first.config);
  o.config = "cpu_packed tile=600x64 inst=1x16x1";
  EXPECT_THROW(Dispatcher(o).select(p), Error);
  o.config = "cpu_packed tile=";
  EXPECT_THROW(Dispatcher(o).select(p), Error);

  o = options();
  o.policy = Policy::callback;
  EXPECT_THROW(Dispatcher(o).select(p), Error) << "no callback given";
  size_t seen = 0;
  o.rank = [&](const Problem& q, std::span<const Candidate> candidates) {
    EXPECT_EQ(q, p);
    seen = candidates.size();
    return std::vector<size_t>{candidates.size() - 1};
  };
  const Choice last = Dispatcher(o).select(p);
  EXPECT_GT(seen, 1u);
  EXPECT_EQ(last.source, ChoiceSource::callback);
  o.rank = [](const Problem&, std::span<const Candidate>) { return std::vector<size_t>{}; };
  EXPECT_THROW(Dispatcher(o).select(p), Error);

  o = options();
  o.policy = Policy::model_topk;
  o.top_k = 2;
  o.background = false;
  Dispatcher topk(o);
  const Kernel& kernel = topk.get(p);
  EXPECT_EQ(kernel.choice().source, ChoiceSource::measured);
  const auto ranked = topk.explain(p).candidates;
  EXPECT_TRUE(kernel.choice().config == ranked[0].config || kernel.choice().config == ranked[1].config);

  for (const char* name : {"model", "model_topk", "tuned", "explicit", "first_legal", "callback"}) {
    EXPECT_EQ(to_string(parse_policy(name)), name);
  }
  EXPECT_THROW(parse_policy("modell"), Error);
}

TEST(Dispatcher, OptionsThatDoNotServeAreRefusedAtOnce) {
  const auto refused = [](ErrorCode code, auto&& change) {
    DispatcherOptions o = options();
    change(o);
    try {
      Dispatcher d(o);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      return std::string(e.what());
    }
    ADD_FAILURE() << "accepted";
    return std::string();
  };
  const RankCallback rank = [](const Problem&, std::span<const Candidate>) { return std::vector<size_t>{0}; };
  constexpr auto bad = ErrorCode::bad_input;
  const std::string config = "cpu_packed tile=4x16 inst=1x8x1";
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), text.npos) << text;
  };
  has(refused(bad, [&](auto& o) { o.config = config; }), "policy 'model' with a config; policy 'explicit'");
  has(refused(bad, [&](auto& o) { o.rank = rank; }),
      "policy 'model' with a rank function; policy 'callback'");
  has(refused(bad, [&](auto& o) { o.policy = Policy::explicit_config; }), "without a config");
  has(refused(bad, [&](auto& o) { o.policy = Policy::callback; }), "without a rank function");
  has(refused(bad, [&](auto& o) { o.config = "cpu_packed tile=", o.policy = Policy::explicit_config; }),
      "config 'cpu_packed tile='");
  has(refused(bad, [&](auto& o) { o.policy = static_cast<Policy>(77); }), "unknown policy 77");
  has(refused(bad, [&](auto& o) { o.device = "cpu:4", o.threads = 2; }), "give one of the two");
  has(refused(bad, [&](auto& o) { o.top_k = -1; }), "top_k");
  has(refused(ErrorCode::io, [&](auto& o) { o.model = "/nonexistent.model"; }), "/nonexistent.model");
  has(refused(ErrorCode::corrupt, [&](auto& o) { o.model = TESSERA_SOURCE_DIR "/LICENSE"; }), "LICENSE");
  EXPECT_THROW(Dispatcher(options()).build({}, -3), Error);
}

TEST(Dispatcher, NamesWhatHasNoName) {
  Dispatcher d(options());
  Problem p = Problem::parse(kProblem);
  p.layout = static_cast<Layout>(77);
  try {
    d.get(p);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    EXPECT_NE(e.what_happened().find("layout is 77"), std::string::npos) << e.what();
  }
}

TEST(Dispatcher, RegistryLimitsAndOrdersTheChoice) {
  const Problem p = Problem::parse(kProblem);
  const auto all = Dispatcher(options()).explain(p).candidates;
  ASSERT_GT(all.size(), 2u);
  DispatcherOptions o = options();
  o.registry = std::make_shared<Registry>("two");
  o.registry->add({.config = to_string(all[1].config), .exact = true});
  o.registry->add({.config = to_string(all.back().config), .exact = true, .priority = 1});
  const auto limited = Dispatcher(o).explain(p).candidates;
  ASSERT_EQ(limited.size(), 2u);
  EXPECT_EQ(limited[0].config, all.back().config) << "priority comes before predicted time";
  EXPECT_EQ(limited[1].config, all[1].config);

  o.registry = std::make_shared<Registry>("none");
  EXPECT_THROW(Dispatcher(o).select(p), Error);
}

TEST(Dispatcher, ThreadsShareOneKernel) {
  Dispatcher d(options());
  const Problem p = Problem::parse("gemm m=40 n=40 k=40 dtype=f32 layout=rrr");
  std::vector<std::thread> threads;
  std::vector<const Kernel*> got(8);
  std::vector<int> wrong(8, 0);
  for (size_t t = 0; t < got.size(); ++t) {
    threads.emplace_back([&, t] {
      got[t] = &d.get(p);
      Operands x(p);
      for (int i = 0; i < 20; ++i) {
        std::fill(x.c.begin(), x.c.end(), -1.f);
        d.run(p, x.buffers());
        for (float v : x.c) wrong[t] += v != 80.f;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(std::set<const Kernel*>(got.begin(), got.end()).size(), 1u);
  for (int w : wrong) EXPECT_EQ(w, 0);
}

TEST(Dispatcher, BuildReportsPerProblem) {
  Dispatcher d(options());
  const std::vector<Problem> problems = {Problem::parse(kProblem),
                                         Problem::parse("gemm m=5 n=6 k=7 dtype=f32")};
  size_t calls = 0;
  const auto errors = d.build(problems, 2, [&](size_t done, size_t total, const std::string&) {
    ++calls;
    EXPECT_LE(done, total);
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
  EXPECT_EQ(calls, 2u);
}

TEST(Dispatcher, PlansForADeviceThatIsNotThere) {
  DispatcherOptions o = options();
  o.device = "null:x86_avx2";
  Dispatcher d(o);
  const Problem p = Problem::parse(kProblem);
  EXPECT_FALSE(d.explain(p).candidates.empty());
  EXPECT_NE(d.emit(p).find("extern \"C\""), std::string::npos);
  EXPECT_THROW(d.get(p), Error) << "it runs nothing";
  o.device = "null:no_such_arch";
  EXPECT_THROW(Dispatcher{o}, Error);
  o.device = "toaster";
  EXPECT_THROW(Dispatcher{o}, Error);
}

TEST(Dispatcher, RefusesBadProblemsAndNamesThem) {
  Dispatcher d(options());
  Problem p = Problem::parse(kProblem);
  p.m = -3;
  try {
    d.get(p);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string(e.what()).find("m=-3"), std::string::npos) << e.what();
  }
}

TEST(Dispatcher, SelectsANewProblemWithinAMillisecond) {
  if (TESSERA_SANITIZED) GTEST_SKIP() << "built with a sanitizer";
  for (const char* device :
       {"cpu", "null:sm_90a", "null:gfx90a", "null:gfx942", "null:gfx950", "null:gfx1100"}) {
    DispatcherOptions o = options();
    o.device = device;
    Dispatcher d(o);
    double best = 1e9;
    for (int64_t m = 100; m < 120; ++m) {
      Problem p = Problem::parse("gemm m=1 n=384 k=200 dtype=bf16");
      p.m = m;
      double us = 0;
      d.select(p, &us);
      best = std::min(best, us);
    }
    EXPECT_LT(best, 1000.0) << device;
  }
}

// Where a choice looks at a part of very many candidates only, it is nearly the best of all by the same
// predictions.
TEST(Dispatcher, ChoosesNearlyTheBestOfVeryMany) {
  for (const char* arch : {"gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"}) {
    DispatcherOptions o = options();
    o.device = "null:" + std::string(arch);
    Dispatcher d(o);
    for (const char* shape : {"m=1024 n=1024 k=1024", "m=16 n=4096 k=4096", "m=333 n=777 k=555",
                              "m=128 n=128 k=16384", "m=512 n=512 k=512 batch=16", "m=4096 n=11008 k=4096"}) {
      for (const char* type : {"f16", "i8"}) {
        const Problem p = Problem::parse(std::string("gemm ") + shape + " layout=rcr dtype=" + type);
        const Explanation e = d.explain(p);
        const Choice choice = d.select(p);
        EXPECT_TRUE(choice.config == e.choice.config) << arch << ' ' << shape;
        const auto same = [&](const Candidate& c) { return c.config == choice.config; };
        const auto found = std::find_if(e.candidates.begin(), e.candidates.end(), same);
        ASSERT_NE(found, e.candidates.end()) << arch << ' ' << shape;
        EXPECT_DOUBLE_EQ(found->predicted_us, choice.predicted_us);
        EXPECT_LE(choice.predicted_us, 1.1 * e.candidates[0].predicted_us)
            << arch << ' ' << shape << ' ' << type;
        // What looks at each candidate by itself still sees all of them.
        DispatcherOptions given = o;
        given.policy = Policy::explicit_config;
        given.config = to_string(e.candidates[0].config);
        EXPECT_TRUE(Dispatcher(given).select(p).config == e.candidates[0].config);
      }
    }
  }
}

TEST(Dispatcher, HitTakesUnderAMicrosecond) {
  if (TESSERA_SANITIZED) GTEST_SKIP() << "built with a sanitizer";
  Dispatcher d(options());
  const Problem p = Problem::parse(kProblem);
  d.get(p);
  constexpr int kRuns = 20, kCalls = 5000;
  const Kernel* kernel = nullptr;
  double best_ns = 1e9;  // of short runs: a busy machine interrupts few of them
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) kernel = &d.get(p);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best_ns = std::min(best_ns, took.count() / kCalls);
  }
  EXPECT_NE(kernel, nullptr);
  EXPECT_LT(best_ns, 1000.0) << "the bar on a quiet machine is 100 ns: bench_dispatch reports it";
}

}  // namespace
}  // namespace tessera
