#include "tessera/registry.h"

#include <gtest/gtest.h>

#include <thread>

#include "tessera/error.h"

namespace tessera {
namespace {

const char* kSet = R"(
# two families
exact cpu_packed tile=6x64 inst=1x16x1 dtype=f32 priority=5
any   cpu_dot tile=4x* layout=rcr arch=x86_*
any   * inst=16x16x32 dtype=bf16
)";

KernelConfig config(const char* text) {
  std::string why;
  auto c = KernelConfig::parse(text, &why);
  EXPECT_TRUE(c) << why;
  return c.value_or(KernelConfig{});
}

Problem problem(const char* text) { return Problem::parse(text); }

TEST(Registry, DeclaresExactlyAndByPattern) {
  auto r = Registry::parse(kSet, "two");
  ASSERT_EQ(r->size(), 3u);
  const Problem f32 = problem("gemm m=8 n=8 k=8 dtype=f32 layout=rcr");
  const Problem bf16 = problem("gemm m=8 n=8 k=8 dtype=bf16 layout=rrr");
  int priority = 0;
  EXPECT_TRUE(r->find(f32, "x86_any", config("cpu_packed tile=6x64 inst=1x16x1"), &priority));
  EXPECT_EQ(priority, 5);
  EXPECT_FALSE(r->find(f32, "x86_any", config("cpu_packed tile=6x64 inst=1x16x1 pack_a=1"), &priority));
  EXPECT_FALSE(r->find(bf16, "x86_any", config("cpu_packed tile=6x64 inst=1x16x1"), &priority));
  EXPECT_TRUE(r->find(f32, "x86_any", config("cpu_dot tile=4x6 inst=1x1x16 swap_ab=1"), &priority));
  EXPECT_FALSE(r->find(f32, "other", config("cpu_dot tile=4x6"), &priority));
  EXPECT_FALSE(r->find(f32, "x86_any", config("cpu_dot tile=5x6"), &priority));
  EXPECT_TRUE(r->find(bf16, "other", config("cpu_amx tile=32x32 inst=16x16x32"), &priority));
  EXPECT_EQ(r->exact_configs(f32, "x86_any").size(), 1u);
  EXPECT_TRUE(r->exact_configs(bf16, "x86_any").empty());
}

TEST(Registry, TiesKeepTheHigherPriorityThenTheFirst) {
  Registry r;
  EXPECT_TRUE(r.add({.config = "cpu_dot tile=4x4", .priority = 1}));
  EXPECT_FALSE(r.add({.config = "cpu_dot tile=4x4", .priority = 1}));
  EXPECT_FALSE(r.add({.config = "cpu_dot tile=4x4", .priority = 0}));
  EXPECT_TRUE(r.add({.config = "cpu_dot tile=4x4", .priority = 7}));
  ASSERT_EQ(r.size(), 1u);
  EXPECT_EQ(r.all()[0].priority, 7);
  EXPECT_TRUE(r.add({.config = "cpu_dot", .priority = 2}));
  int priority = 0;
  EXPECT_TRUE(r.find(problem("gemm m=1 n=1 k=1 dtype=f32"), "x", config("cpu_dot tile=4x4"), &priority));
  EXPECT_EQ(priority, 7) << "the highest of the declarations that allow it";
}

TEST(Registry, MergesAndFilters) {
  Registry a("a"), b("b");
  a.add({.config = "cpu_dot tile=4x4", .priority = 1});
  b.add({.config = "cpu_dot tile=4x4", .priority = 3});
  b.add({.config = "cpu_packed", .arch = "x86_*"});
  EXPECT_EQ(a.merge(b), 2u);
  EXPECT_EQ(a.merge(a), 0u);
  EXPECT_EQ(a.all()[0].priority, 3);
  EXPECT_EQ(a.filter_by_arch("other"), 1u);
  EXPECT_EQ(a.filter([](const KernelDecl& d) { return d.priority < 3; }), 1u);
  EXPECT_EQ(a.size(), 0u);
  EXPECT_EQ(b.size(), 2u) << "the merged-from registry is untouched";
  b.clear();
  EXPECT_EQ(b.size(), 0u);
}

TEST(Registry, JsonRoundTrips) {
  auto r = Registry::parse(kSet, "two");
  const Json json = r->to_json();
  EXPECT_EQ(json.at("statistics").at("total").as_int(), 3);
  auto again = Registry::from_json(Json::parse(json.dump(2)));
  EXPECT_EQ(again->all(), r->all());
  EXPECT_EQ(again->to_json(), json);
  Json extra = json;
  extra.set("surprise", 1);
  EXPECT_THROW(Registry::from_json(extra), Error);
}

TEST(Registry, ReadsJsonWhereverItReadsText) {
  const auto first = Registry::parse("exact cpu_packed tile=6x64 inst=1x16x1 layout=r*r\nany *", "mine");
  const auto again = Registry::parse(first->to_json().dump(), "a file");
  EXPECT_EQ(again->all(), first->all());
  EXPECT_EQ(again->name(), "mine");
  const Json counts = first->to_json().at("statistics");
  EXPECT_EQ(counts.at("layout").at("r*r").as_int(), 1);
  EXPECT_EQ(counts.at("pipeline").at("*").as_int(), 2);
  EXPECT_EQ(
      Registry::parse("any mfma pipeline=mem")->to_json().at("statistics").at("pipeline").at("mem").as_int(),
      1);
}

TEST(Registry, ErrorsNameTheFileAndTheKernel) {
  const auto message = [](std::string_view text) {
    try {
      Registry::parse(text, "some.file");
    } catch (const Error& e) { return std::string(e.what()); }
    return std::string("accepted");
  };
  for (
      std::string_view text :
      {R"({"version":1,"name":"x","kernels":[{"config":"*","exact":false,"dtype":"*","layout":"*","arch":"*"}]})",
       R"({"version":1,"name":"x","kernels":[{"config":"*","exact":false,"dtype":"*","layout":"*","arch":"*","priority":9999999}]})"}) {
    EXPECT_NE(message(text).find("some.file"), std::string::npos) << message(text);
    EXPECT_NE(message(text).find("kernel 1"), std::string::npos) << message(text);
    EXPECT_NE(message(text).find("priority"), std::string::npos) << message(text);
  }
  EXPECT_NE(message("any *\nany * dtype=f32 dtype=bf16").find("line 2: 'dtype' is given twice"),
            std::string::npos);
  EXPECT_NE(message("any cpu_packed tile=ax*").find("bad value in 'tile=ax*'"), std::string::npos);
  EXPECT_NE(message("any cpu_packed tile=6").find("'tile=6' needs 2 values"), std::string::npos);
}

TEST(Registry, RefusesWhatItDoesNotKnow) {
  const char* bad[] = {"exact cpu_nothing",
                       "perhaps cpu_dot",
                       "any cpu_dot tile=4",
                       "any cpu_dot speed=9",
                       "any",
                       "exact cpu_dot priority=x",
                       "exact cpu_dot tile=4x*",
                       "any cpu_dot dtype=bf61",
                       "any cpu_dot layout=r",
                       "any cpu_dot arch=a$b",
                       "any cpu_dot dtype="};
  for (const char* line : bad) EXPECT_THROW(Registry::parse(line), Error) << line;
  try {
    Registry::parse("any cpu_dot\nany cpu_dot nonsense=1", "set.txt");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("set.txt line 2"), std::string::npos) << e.what();
  }
}

TEST(Registry, IsThreadSafe) {
  Registry a("a"), b("b");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 50; ++i) {
        a.add({.config = "cpu_dot tile=" + std::to_string(i) + "x" + std::to_string(t + 1)});
        (t % 2 ? a : b).merge(t % 2 ? b : a);
        int priority;
        a.find(problem("gemm m=1 n=1 k=1 dtype=f32"), "x", KernelConfig{}, &priority);
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(a.size(), 200u);
}

TEST(Registry, AFilterDropsAllOrNothing) {
  Registry r;
  for (int i = 1; i <= 4; ++i) r.add({.config = "cpu_dot tile=" + std::to_string(i) + "x4"});
  const auto before = r.all();
  EXPECT_THROW(r.filter([&](const KernelDecl& d) -> bool {
    if (d.config == "cpu_dot tile=3x4") throw std::runtime_error("no");
    return false;
  }),
               std::runtime_error);
  EXPECT_EQ(r.all(), before);
  EXPECT_EQ(r.filter([&](const KernelDecl& d) { return r.size() == 4 && d != before[1]; }), 1u)
      << "the predicate may use the registry";
  EXPECT_EQ(r.size(), 3u);
}

TEST(Registry, PrioritiesAreThoseThatJsonHolds) {
  Registry r;
  EXPECT_THROW(r.add({.config = "cpu_dot", .priority = 1000001}), Error);
  EXPECT_THROW(r.add({.config = "cpu_dot", .priority = -1000001}), Error);
  EXPECT_TRUE(r.add({.config = "cpu_dot", .priority = 1000000}));
  EXPECT_EQ(Registry::from_json(r.to_json())->all(), r.all());
}

TEST(Registry, EqualPatternsAreOneDeclaration) {
  Registry r;
  EXPECT_TRUE(r.add({.config = "cpu_dot tile=4x* inst=1x1x16"}));
  EXPECT_FALSE(r.add({.config = "  cpu_dot   inst=1x1x16 tile=4x*"}));
  EXPECT_FALSE(r.add({.config = "cpu_dot inst=1x1x16 tile=4x* block=*"}));
  ASSERT_EQ(r.size(), 1u);
  EXPECT_EQ(r.all()[0].config, "cpu_dot tile=4x* inst=1x1x16");
  for (const char* text : {"*", "* inst=16x16x32", "mfma pipeline=mem", "cpu_packed tile=*x64 pack_a=1"}) {
    Registry one;
    one.add({.config = text});
    EXPECT_EQ(one.all()[0].config, text);
    EXPECT_FALSE(one.add(one.all()[0])) << text;
  }
}

TEST(Registry, TakesTheAliasesOfTypes) {
  const auto r =
      Registry::parse("any * dtype=fp32\nany * dtype=uint8xint8\nany * dtype=uint8x*\nany * dtype=f8*");
  std::vector<std::string> types;
  for (const KernelDecl& d : r->all()) types.push_back(d.dtype);
  EXPECT_EQ(types, (std::vector<std::string>{"f32", "u8xi8", "u8x*", "f8*"}));
  EXPECT_FALSE(r->add({.config = "*", .dtype = "f32"}));
  EXPECT_THROW(Registry::parse("any * dtype=xf32"), Error);
}

}  // namespace
}  // namespace tessera
