#include "codegen/render.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "base/embedded.h"
#include "base/text.h"
#include "codegen/closure.h"
#include "core/family.h"
#include "tessera/error.h"

namespace tessera {
namespace {

const char* const kArch = "x86_avx512_bf16";

Source rendered(const std::string& problem, const std::string& config, const std::string& arch = kArch) {
  std::string why;
  const auto c = KernelConfig::parse(config, &why);
  if (!c) throw Error(ErrorCode::bad_input, why);
  return render(lower(Problem::parse(problem)), *c, find_arch(arch));
}

const std::string kProblem = "gemm m=64 n=64 k=64 dtype=f32 layout=rcr";
const std::string kConfig = "cpu_packed tile=6x64 inst=1x16x1";

std::optional<Error> refusal(const std::string& problem, const std::string& config) {
  try {
    rendered(problem, config);
  } catch (const Error& e) { return e; }
  return std::nullopt;
}

TEST(Render, TextNamesEveryValue) {
  const Source s = rendered(kProblem + " epilogue=bias,clamp:0:6", kConfig + " block=192x0x512");
  EXPECT_EQ(s.text,
            "#include \"cpu/packed.h\"\n"
            "\n"
            "struct Config {\n"
            "  static constexpr int tile_m = 6;\n"
            "  static constexpr int tile_n = 64;\n"
            "  static constexpr int vector_bits = 512;\n"
            "  static constexpr int a_along_k = 1;\n"
            "  static constexpr int a_table = 0;\n"
            "  static constexpr int a_step = 4;\n"
            "  static constexpr int b_step = 256;\n"
            "  static constexpr tsr::Inst inst = tsr::Inst::fma;\n"
            "  static constexpr tsr::Type type_a = tsr::Type::f32;\n"
            "  static constexpr tsr::Type type_b = tsr::Type::f32;\n"
            "  static constexpr tsr::Type type_out = tsr::Type::f32;\n"
            "  static constexpr tsr::Type type_d = tsr::Type::f32;\n"
            "  static constexpr tsr::Type type_acc = tsr::Type::f32;\n"
            "  static constexpr int epilogue_count = 2;\n"
            "  static constexpr tsr::Step epilogue[] = {tsr::Step::bias, tsr::Step::clamp};\n"
            "};\n"
            "\n"
            "extern \"C\" __attribute__((visibility(\"default\"))) void " +
                s.symbol +
                "(const void* args) {\n"
                "  tsr::cpu_packed<Config>(args);\n"
                "}\n");
  EXPECT_EQ(s.symbol.substr(0, 15), "tsr_cpu_packed_");
  EXPECT_EQ(s.symbol.size(), 15u + 32u);
  EXPECT_EQ(s.arch, kArch);
  EXPECT_EQ(s.flags, find_arch(kArch).compile_flags);
  EXPECT_NE(rendered(kProblem, kConfig).text.find("epilogue[] = {tsr::Step::none}"), std::string::npos);
}

TEST(Render, IsDeterministic) {
  for (int i = 0; i < 3; ++i) {
    const Source a = rendered(kProblem, kConfig), b = rendered(kProblem, kConfig);
    EXPECT_EQ(a.unit, b.unit);
    EXPECT_EQ(a.symbol, b.symbol);
  }
}

// What cannot change the code must not change its name: few distinct kernels serve all problems.
TEST(Render, ProblemsShareUnits) {
  const Source base = rendered(kProblem, kConfig);
  for (const char* problem : {"gemm m=1 n=2 k=3 dtype=f32 layout=rcr",
                              "gemm m=64 n=64 k=64 dtype=f32 layout=rrr alpha=2 beta=1 batch=7 lda=99",
                              "gemm m=64 n=64 k=64 dtype=f16 layout=rcr out=f32",
                              "gemm m=64 n=64 k=64 dtype=f32 layout=rcr prepack=b"}) {
    EXPECT_EQ(rendered(problem, kConfig).symbol, base.symbol) << problem;
  }
  for (const char* config : {" block=96x512x256", " split_k=4", " preshuffle=1", " pack_a=1"}) {
    EXPECT_EQ(rendered(kProblem, kConfig + config).symbol, base.symbol) << config;
  }
  EXPECT_EQ(rendered(kProblem + " epilogue=clamp:0:6", kConfig).symbol,
            rendered(kProblem + " epilogue=clamp:-1:1", kConfig).symbol);
}

TEST(Render, WhatShapesTheCodeIsInTheName) {
  std::set<std::string> symbols;
  auto add = [&](const Source& s) { EXPECT_TRUE(symbols.insert(s.symbol).second) << s.text; };
  add(rendered(kProblem, kConfig));
  add(rendered(kProblem, "cpu_packed tile=5x64 inst=1x16x1"));
  add(rendered(kProblem, "cpu_packed tile=6x32 inst=1x16x1"));
  add(rendered(kProblem, "cpu_direct tile=6x64 inst=1x16x1"));
  add(rendered(kProblem, "cpu_direct tile=6x64 inst=1x16x1 swap_ab=1"));
  add(rendered("gemm m=64 n=64 k=64 dtype=f16 layout=rcr out=f32", "cpu_direct tile=6x64 inst=1x16x1"));
  add(rendered("gemm m=64 n=64 k=64 dtype=f32 layout=crr", kConfig));
  add(rendered("gemm m=256 n=64 k=64 dtype=f32 layout=crr", kConfig + " pack_a=1"));
  add(rendered(kProblem, kConfig + " pack_b=0"));
  add(rendered(kProblem, kConfig, "x86_avx512"));  // other flags
  add(rendered(kProblem, "cpu_packed tile=6x16 inst=1x8x1", "x86_avx2"));
  add(rendered(kProblem + " epilogue=relu", kConfig));
  add(rendered(kProblem + " epilogue=bias,relu", kConfig));
  add(rendered(kProblem + " epilogue=relu,bias", kConfig));
  add(rendered("gemm m=64 n=64 k=64 dtype=bf16 layout=rcr", kConfig));
  add(rendered("gemm m=64 n=64 k=64 dtype=bf16 layout=rcr", "cpu_packed tile=6x64 inst=1x16x2"));
  add(rendered("gemm m=64 n=64 k=64 dtype=i8 layout=rcr", "cpu_packed tile=6x64 inst=1x16x4"));
  add(rendered("gemm m=64 n=64 k=64 dtype=u8xi8 layout=rcr", "cpu_packed tile=6x64 inst=1x16x4"));
}

TEST(Render, UnitNeedsNoOtherFile) {
  const Source s = rendered(kProblem, kConfig);
  EXPECT_EQ(s.unit.find("#include"), std::string::npos);
  EXPECT_EQ(s.unit.find("#pragma once"), std::string::npos);
  EXPECT_NE(s.unit.find("#line 1 \"kernels/cpu/packed.h\""), std::string::npos);
  EXPECT_NE(s.unit.find("void " + s.symbol), std::string::npos);
}

TEST(Render, RefusesWhatItCannotGenerate) {
  for (const FamilyInfo& family : families()) {
    if (!family.header.empty()) continue;
    const auto error = refusal(kProblem, std::string(to_string(family.family)));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::unsupported);
    EXPECT_NE(error->what_happened().find(to_string(family.family)), std::string::npos) << error->what();
  }
  const auto error = refusal(kProblem, "cpu_packed tile=6x64 inst=1x16x2");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::bad_input);
  EXPECT_NE(error->what_happened().find("names no instruction"), std::string::npos) << error->what();
}

TEST(Render, KernelKnobsAreKnobs) {
  for (const FamilyInfo& family : families()) {
    for (std::string_view name : family.kernel_knobs) EXPECT_NE(find_config_field(name), nullptr) << name;
  }
}

TEST(Closure, IncludesEveryFileOnce) {
  for (const FamilyInfo& family : families()) {
    if (family.header.empty() || !find_embedded_file("kernels/" + std::string(family.header))) continue;
    const Closure closure = include_closure(family.header);
    std::multiset<std::string> firsts;
    for (std::string_view line : split(closure.text, '\n')) {
      if (line.substr(0, 8) == "#line 1 ") firsts.emplace(line);
    }
    for (const std::string& line : firsts) EXPECT_EQ(firsts.count(line), 1u) << line;
    EXPECT_EQ(closure.text.find("#include"), std::string_view::npos) << family.header;
    EXPECT_EQ(include_closure(family.header).text.data(), closure.text.data());  // worked out once
  }
}

TEST(Closure, LineMarksPointAtTheRealLines) {
  const Closure closure = include_closure("cpu/packed.h");
  std::string file;
  size_t number = 0, checked = 0;
  for (std::string_view line : split(closure.text, '\n')) {
    auto words = split_words(line);
    if (words.size() == 3 && words[0] == "#line") {
      number = static_cast<size_t>(*parse_int(words[1]));
      file = std::string(words[2].substr(1, words[2].size() - 2));
      continue;
    }
    const EmbeddedFile* source = find_embedded_file(file);
    if (source && !line.empty()) {
      auto lines = split(source->text, '\n');
      ASSERT_LE(number, lines.size());
      EXPECT_EQ(lines[number - 1], line) << file << ':' << number;
      ++checked;
    }
    ++number;
  }
  EXPECT_GT(checked, 100u);
}

TEST(Closure, MissingHeaderIsNamed) {
  try {
    include_closure("cpu/absent.h");
    FAIL();
  } catch (const Error& e) { EXPECT_NE(e.what_happened().find("cpu/absent.h"), std::string::npos); }
}

}  // namespace
}  // namespace tessera
