#include "tune/training_file.h"

#include <gtest/gtest.h>

#include "space/space.h"
#include "tessera/error.h"

namespace tessera {
namespace {

TrainingData some() {
  TrainingData data{find_arch("x86_avx512"), "gemm", {}, {}};
  data.arch.compute_units = 2;
  data.processor = "one, \"another\"";
  for (const char* text : {"gemm m=128 n=3072 k=768 dtype=f32", "gemm m=5 n=7 k=9 dtype=bf16 prepack=b"}) {
    const Problem problem = Problem::parse(text);
    const auto configs = legal_configs(lower(problem), data.arch);
    std::vector<double> us;
    for (size_t i = 0; i < configs.size(); ++i) us.push_back(1000.0 / static_cast<double>(3 + i));
    data.add(problem, configs, us);
  }
  return data;
}

TEST(TrainingFile, KeepsWhatTrainingSees) {
  const TrainingData data = some();
  const TrainingData read = parse_training_data(to_text(data), "x");
  EXPECT_EQ(read.arch.name, "x86_avx512");
  EXPECT_EQ(read.arch.compute_units, 2);
  EXPECT_EQ(read.processor, data.processor);
  EXPECT_EQ(read.operation, "gemm");
  EXPECT_EQ(read.types, (std::vector<std::string>{"bf16", "f32"}));
  ASSERT_EQ(read.problems.size(), data.problems.size());
  for (size_t i = 0; i < data.problems.size(); ++i) {
    const MeasuredProblem &was = data.problems[i], &is = read.problems[i];
    EXPECT_EQ(to_string(is.problem), to_string(was.problem));
    EXPECT_EQ(is.fold, was.fold);
    EXPECT_EQ(is.configs, was.configs);
    ASSERT_EQ(is.us.size(), was.us.size());
    for (size_t k = 0; k < is.us.size(); ++k) EXPECT_NEAR(is.us[k] / was.us[k], 1, 5e-5);
    EXPECT_NEAR(is.best_us / was.best_us, 1, 5e-5);
  }
  // Rounded once: what was read gives itself again.
  EXPECT_EQ(to_text(read), to_text(data));
  EXPECT_EQ(parse_training_data(to_text(read), "x").hash(), read.hash());
}

// What rules refuse now: no model can say anything of it. The hash is of what was measured.
TEST(TrainingFile, LeavesOutWhatIsNoLongerLegal) {
  const auto text = [](const char* times) {
    return R"({"version": 1, "arch": "x86_avx512", "units": 1, "processor": "", "operation": "gemm"})"
           "\nconfig cpu_packed tile=4x32 inst=1x16x1\nconfig cpu_packed tile=6x32 inst=1x16x1\n"
           "config cpu_groups tile=4x16 inst=1x16x1\nproblem gemm m=50 n=70 k=90 dtype=f32\n" +
           std::string(times) + "problem gemm m=60 n=70 k=90 dtype=f32\n0 1.5 1 2\n";
  };
  const TrainingData one = parse_training_data(text("0 1.5 2 1 1 2\n"), "x"),
                     all = parse_training_data(text("0 1.5 1 2\n"), "x"),
                     none = parse_training_data(text("0 1.5 2 1\n"), "x");
  ASSERT_EQ(one.problems.size(), 2u);
  EXPECT_EQ(one.problems[0].configs, all.problems[0].configs);
  EXPECT_EQ(one.problems[0].us, all.problems[0].us);
  EXPECT_EQ(one.problems[0].best_us, 1.5);
  EXPECT_NE(one.hash(), all.hash());
  EXPECT_EQ(to_text(one), to_text(all));
  EXPECT_EQ(none.problems.size(), 1u);
}

// A convolution that several cores leave to one says nothing of them.
TEST(TrainingFile, LeavesOutWhatOneCoreDoesAlone) {
  for (const int units : {1, 2}) {
    TrainingData data{find_arch("x86_avx512"), "conv_fwd", {}, {}};
    data.arch.compute_units = units;
    for (const char* text : {"conv_fwd n=1 c=1 k=1 in=8x8 filter=2x2 dtype=f32",
                             "conv_fwd n=1 c=64 k=64 in=28x28 filter=3x3 dtype=f32"}) {
      const Problem problem = Problem::parse(text);
      const auto configs = legal_configs(lower(problem), data.arch);
      data.add(problem, configs, std::vector<double>(configs.size(), 5));
    }
    EXPECT_EQ(data.problems.size(), units == 1 ? 2u : 1u);
  }
}

TEST(TrainingFile, RefusesWithTheLine) {
  const std::string head =
      R"({"version": 1, "arch": "x86_avx512", "units": 1, "processor": "", "operation": "gemm"})"
      "\nconfig cpu_packed tile=4x32 inst=1x16x1\nconfig cpu_packed tile=6x32 inst=1x16x1\n";
  const std::string problem = "problem gemm m=50 n=70 k=90 dtype=f32\n";
  EXPECT_EQ(parse_training_data(head + problem + "0 1.5 1 2\n", "x").problems.size(), 1u);
  const struct {
    std::string text, why;  // of an empty file there is no line
  } kBad[] = {{"", "x:0: empty"},
              {head, "x:3: no problem"},
              {head + problem, "x:4: a problem without times"},
              {head + problem + "0 1.5 2 2\n", "x:5: no configuration and time: '2 2'"},
              {head + problem + "0 1.5 1 0\n", "x:5: no configuration and time: '1 0'"},
              {head + problem + "0 1.5\n", "x:5: not two or more times"},
              {head + problem + "0 1.5 1\n", "x:5: not two or more times"},
              {head + "config nonsense\n", "x:4: config 'nonsense'"},
              {head + "other\n", "x:4: neither"},
              {head + "problem conv_fwd n=1 c=4 k=4 in=8x8 filter=1x1 dtype=f32\n", "x:4: not of gemm"}};
  for (const auto& bad : kBad) {
    try {
      parse_training_data(bad.text, "x");
      ADD_FAILURE() << bad.why;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input);
      EXPECT_NE(std::string(e.what()).find(bad.why), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace tessera
