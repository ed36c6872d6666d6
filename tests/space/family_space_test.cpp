#include "space/family_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/family.h"
#include "tessera/error.h"

namespace tessera {
namespace {

void refused(const std::string& json, const std::string& reason) {
  try {
    parse_family_space(json, "file.json");
    ADD_FAILURE() << "accepted: " << json;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string(e.what()).find(reason), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("file.json"), std::string::npos) << e.what();
  }
}

std::string with_knobs(const std::string& knobs) {
  return R"({"family": "cpu_packed", "doc": "d", "instructions": ["fma"], "knobs": {)" + knobs + "}}";
}

TEST(FamilySpace, EveryFamilyHasOne) {
  for (const FamilyInfo& f : families()) {
    const FamilySpace& s = family_space(f.family);
    EXPECT_EQ(s.family, f.family);
    EXPECT_FALSE(s.instructions.empty());
    EXPECT_EQ(s.knobs.front().source != nullptr, true);
    EXPECT_TRUE(s.knob_set >> (find_config_field("inst_n") - config_fields().data()) & 1)
        << to_string(f.family);
  }
}

// An instruction that no family issues, or a family that no architecture's instructions serve, is a misspelt
// name.
TEST(FamilySpace, InstructionNamesMeet) {
  for (const ArchSpec& a : all_archs()) {
    std::set<std::string> issued;
    for (Family f : a.families) {
      bool any = false;
      for (const Instruction& i : a.instructions) {
        if (!family_space(f).issues(i, i.a, i.b, false)) continue;
        any = true;
        issued.insert(i.name);
      }
      EXPECT_TRUE(any) << a.name << ' ' << to_string(f);
    }
    // A half that no config names is still what the last vector of its whole may take (half_edge).
    for (const Instruction& i : a.instructions) {
      const std::string whole(i.operation());
      EXPECT_TRUE(issued.count(i.name) || issued.count(whole)) << a.name << ' ' << i.name;
    }
  }
}

TEST(FamilySpace, Parses) {
  const FamilySpace s = parse_family_space(
      with_knobs(
          R"("tile": ["6x64", "12x32"], "pack_a": [1], "inst": "instructions", "split_k": {"from": "idle_units", "limit": 4})"),
      "file.json");
  ASSERT_EQ(s.knobs.size(), 4u);
  EXPECT_EQ(s.knobs[0].fields.size(), 2u);
  EXPECT_EQ(s.knobs[0].listed[1][0], 12);
  EXPECT_EQ(s.knobs[1].listed.size(), 1u);
  EXPECT_EQ(s.knobs[2].source->name, "instructions");
  EXPECT_EQ(s.knobs[3].limit, 4);
}

TEST(FamilySpace, RefusesBrokenFiles) {
  refused("{", "file.json");
  refused("{}", "missing key 'family'");
  refused("[]", "not an object");
  refused(with_knobs("") + "x", "file.json");
  refused(R"({"family": "cpu_fast", "instructions": [], "knobs": {}})", "unknown family 'cpu_fast'");
  refused(R"({"family": "mfma", "colour": 1, "instructions": [], "knobs": {}})", "colour: unknown key");
  refused(R"({"family": "mfma", "types": ["half"], "instructions": [], "knobs": {}})",
          "unknown dtype 'half'");
  refused(with_knobs(R"("tile": ["6"])"), "tile: bad value '6'");
  refused(with_knobs(R"("tile": ["6x64", "6x64"])"), "is listed twice");
  refused(with_knobs(R"("tile": [])"), "an empty list");
  refused(with_knobs(R"("tile": ["6x64"], "tile_n": [64])"), "knob 'tile_n' is decided twice");
  refused(with_knobs(R"("tiles": ["6x64"])"), "unknown knob 'tiles'");
  refused(with_knobs(R"("family": ["mfma"])"), "unknown knob 'family'");
  refused(with_knobs(R"("pipeline": ["fast"])"), "bad value 'fast'");
  refused(with_knobs(R"("pipeline": [3])"), "bad value '3'");
  refused(with_knobs(R"("inst": "instruction")"), "unknown source 'instruction'");
  refused(with_knobs(R"("inst": {"values": ["1x16x1"]})"), "missing key 'from'");
  refused(with_knobs(R"("inst": {"from": "list", "value": 3})"), "unknown key 'value'");
  const std::string led =
      R"({"family": "mfma", "instructions": ["mfma"], "knobs": {"wave": "wave_grids", "store": ["direct"]}, )";
  refused(led + R"("leading": ["block"]})", "leading: 'block' is none of the knobs");
  refused(led + R"("leading": ["store", "wave"]})",
          "leading: 'wave' is none of the knobs, or one before the last");
  refused(led + R"("leading": ["wave", "wave"]})", "leading: 'wave'");
  refused(with_knobs(R"("stages pipeline scheduler store": "needed")"), "one to three knobs");
}

TEST(FamilySpace, OffersByShape) {
  const FamilySpace& dot = family_space(Family::cpu_dot);
  auto offers = [](const FamilySpace& s, const std::string& text) {
    return s.offers(lower(Problem::parse(text)));
  };
  EXPECT_TRUE(offers(dot, "gemm m=1 n=4096 k=64 dtype=f32"));
  EXPECT_TRUE(offers(dot, "gemm m=4096 n=16 k=64 dtype=f32"));
  EXPECT_FALSE(offers(dot, "gemm m=400 n=400 k=64 dtype=f32"));
  const FamilySpace& direct = family_space(Family::cpu_direct);
  EXPECT_TRUE(offers(direct, "gemm m=40 n=40 k=40 dtype=f32"));
  EXPECT_TRUE(offers(direct, "gemm m=4096 n=16 k=64 dtype=f32"));
  EXPECT_FALSE(offers(direct, "gemm m=4096 n=4096 k=4096 dtype=f32"));
  EXPECT_FALSE(offers(direct, "gemm m=1000000 n=1000000 k=1000 dtype=f32"));
}

TEST(FamilySpace, SourcesAreNamedOnceAndExplained) {
  std::set<std::string_view> names;
  for (const ValueSource& s : value_sources()) {
    EXPECT_TRUE(names.insert(s.name).second) << s.name;
    EXPECT_FALSE(s.doc.empty()) << s.name;
  }
}

}  // namespace
}  // namespace tessera
