#include "model/features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "model/learned.h"
#include "model/model.h"
#include "space/space.h"

namespace tessera {
namespace {

GemmView view(const char* text) { return lower(Problem::parse(text)); }

size_t index_of(std::string_view name) {
  for (size_t i = 0; i < features().size(); ++i) {
    if (features()[i].name == name) return i;
  }
  ADD_FAILURE() << "no feature " << name;
  return 0;
}

TEST(Features, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const Feature& f : features()) EXPECT_TRUE(names.insert(f.name).second) << f.name;
}

// A feature tagged `problem` is the same for every config, one tagged `kernel` the same for every problem.
TEST(Features, TagsTellTheTruth) {
  const ArchSpec& arch = find_arch("x86_avx512");
  const GemmView one = view("gemm m=129 n=500 k=70 dtype=f32"),
                 other = view("gemm m=8 n=4096 k=512 dtype=f32");
  const auto configs = legal_configs(one, arch);
  ASSERT_GT(configs.size(), 2u);
  std::vector<double> first(features().size()), x(features().size()), y(features().size());
  compute_features(one, configs[0], arch, first);
  for (const KernelConfig& c : configs) {
    compute_features(one, c, arch, x);
    compute_features(other, c, arch, y);
    for (size_t i = 0; i < features().size(); ++i) {
      ASSERT_TRUE(std::isfinite(x[i])) << features()[i].name << " of " << to_string(c);
      if (features()[i].tag == FeatureTag::problem) { ASSERT_EQ(x[i], first[i]) << features()[i].name; }
      if (features()[i].tag == FeatureTag::kernel) { ASSERT_EQ(x[i], y[i]) << features()[i].name; }
    }
  }
}

TEST(Features, FillIsUsefulOverPadded) {
  std::string why;
  const auto c = KernelConfig::parse("cpu_packed tile=6x64 inst=1x16x1", &why);
  std::vector<double> x(features().size());
  compute_features(view("gemm m=12 n=65 k=8 dtype=f32"), *c, find_arch("x86_avx512"), x);
  EXPECT_DOUBLE_EQ(x[index_of("fill_m")], 1.0);
  EXPECT_DOUBLE_EQ(x[index_of("fill_n")], 65.0 / 128.0);
  EXPECT_DOUBLE_EQ(x[index_of("log2_k")], 3.0);
}

TEST(Analytic, PredictsPositiveFiniteTimesEverywhere) {
  for (const ArchSpec& arch : all_archs()) {
    for (const char* text : {"gemm m=1 n=1 k=1 dtype=f16", "gemm m=4096 n=4096 k=4096 dtype=f16",
                             "gemm m=1 n=4096 k=64 dtype=f16 layout=rrr", "gemm m=7 n=9 k=0 dtype=f16"}) {
      const GemmView v = view(text);
      const auto configs = legal_configs(v, arch);
      std::vector<double> us(configs.size());
      analytic_model().predict(v, arch, configs, us);
      for (size_t i = 0; i < us.size(); ++i) {
        ASSERT_TRUE(std::isfinite(us[i]) && us[i] > 0)
            << arch.name << " " << text << " " << to_string(configs[i]);
      }
    }
  }
}

// What configurations of a view share is worked out once: bit for bit what each gets alone, in whatever order
// they come, from the analytic model and from the shipped ones.
TEST(Analytic, TogetherIsAsOneByOne) {
  std::mt19937 random(7);
  for (const ArchSpec& arch : all_archs()) {
    for (const char* text :
         {"gemm m=48 n=136 k=4096 dtype=bf16", "gemm m=16 n=1280 k=8192 dtype=bf16 layout=rrr",
          "gemm m=300 n=57 k=511 dtype=bf16 batch=3 epilogue=bias", "gemm m=64 n=192 k=256 dtype=f8e4m3",
          "gemm m=33 n=64 k=128 dtype=f32 prepack=b", "conv_fwd n=1 g=20 c=2 k=3 in=9x9 filter=3x3 dtype=f32",
          "conv_bwd_data n=2 c=32 k=30 in=9x9 filter=3x3 stride=2x2 dtype=bf16",
          "conv_bwd_weight n=2 c=32 k=64 in=14x14 filter=3x3 pad=1x1 dtype=bf16"}) {
      const Problem p = Problem::parse(text);
      const GemmView v = lower(p);
      const auto check = [&](const Model& model, std::span<const KernelConfig> configs) {
        std::vector<double> us(configs.size());
        model.predict(v, arch, configs, us);
        for (size_t i = 0; i < configs.size(); ++i) {
          double alone = 0;
          model.predict(v, arch, configs.subspan(i, 1), std::span(&alone, 1));
          ASSERT_EQ(alone, us[i]) << model.name() << ", " << arch.name << ": " << to_string(configs[i]);
        }
      };
      auto configs = legal_configs(v, arch);
      const Model& learned = model_for("", arch, p);
      const auto check_learned = [&] {
        // Families that the model has not seen come behind the others, wherever these are.
        std::vector<KernelConfig> asked = configs;
        if (const auto* trees = dynamic_cast<const LearnedModel*>(&learned)) {
          const auto& seen = trees->scope().families;
          std::erase_if(asked, [&](const KernelConfig& c) {
            return !seen.empty() && std::ranges::find(seen, to_string(c.family_id())) == seen.end();
          });
        }
        check(learned, std::span(asked).first(std::min(asked.size(), LearnedModel::kMostAsked)));
      };
      check(analytic_model(), configs);
      check_learned();
      std::shuffle(configs.begin(), configs.end(), random);
      check(analytic_model(), configs);
      check_learned();
    }
  }
}

// Doubling every extent cannot make the best prediction faster, and edge waste is charged.
TEST(Analytic, GrowsWithWork) {
  const ArchSpec& arch = find_arch("x86_avx512");
  auto best = [&](const char* text) {
    const GemmView v = view(text);
    const auto configs = legal_configs(v, arch);
    std::vector<double> us(configs.size());
    analytic_model().predict(v, arch, configs, us);
    return *std::min_element(us.begin(), us.end());
  };
  EXPECT_LT(best("gemm m=256 n=256 k=256 dtype=f32"), best("gemm m=512 n=512 k=512 dtype=f32"));
  EXPECT_LT(best("gemm m=64 n=64 k=64 dtype=f32"), best("gemm m=128 n=128 k=128 dtype=f32"));
}

}  // namespace
}  // namespace tessera
