#include "tessera/kernel_config.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tessera/error.h"

namespace tessera {
namespace {

std::string refusal(std::string_view text) {
  std::string why;
  EXPECT_FALSE(KernelConfig::parse(text, &why)) << text;
  return why;
}

KernelConfig parsed(std::string_view text) {
  std::string why;
  auto c = KernelConfig::parse(text, &why);
  EXPECT_TRUE(c) << text << ": " << why;
  return c.value_or(KernelConfig{});
}

TEST(KernelConfig, PrintsWhatIsNotDefault) {
  EXPECT_EQ(to_string(KernelConfig{}), "cpu_packed");
  EXPECT_EQ(to_string(parsed("cpu_packed tile=6x64  inst=1x16x1 block=96x512x256 pack_a=1")),
            "cpu_packed block=96x512x256 tile=6x64 inst=1x16x1 pack_a=1");
  EXPECT_EQ(to_string(parsed("mfma pipeline=compv4 scheduler=intrawave store=cshuffle pad=0x1x0")),
            "mfma pipeline=compv4 scheduler=intrawave store=cshuffle pad=0x1x0");
}

TEST(KernelConfig, EveryFieldChangesTheNameTheHashAndEquality) {
  std::set<std::string> names{to_string(KernelConfig{})};
  std::set<uint64_t> hashes{hash(KernelConfig{})};
  for (const ConfigField& f : config_fields()) {
    KernelConfig c;
    c.*f.member = f.default_value == 0 ? 1 : 0;
    EXPECT_NE(c, KernelConfig{}) << f.name;
    EXPECT_TRUE(names.insert(to_string(c)).second) << f.name;
    EXPECT_TRUE(hashes.insert(hash(c)).second) << f.name;
    EXPECT_EQ(parsed(to_string(c)), c) << f.name;
    EXPECT_EQ(config_from_json(to_json(c)), c) << f.name;
    EXPECT_EQ(find_config_field(f.name), &f);
  }
}

TEST(KernelConfig, RandomValuesRoundTrip) {
  std::mt19937 random(1);
  std::set<std::string> names;
  std::set<uint64_t> hashes;
  constexpr int kCount = 5000;
  for (int i = 0; i < kCount; ++i) {
    KernelConfig c;
    for (const ConfigField& f : config_fields()) {
      const int values = f.names.empty() ? 1000000 : static_cast<int>(f.names.size());
      if (random() % 2) c.*f.member = static_cast<int>(random() % values);
    }
    ASSERT_EQ(parsed(to_string(c)), c);
    ASSERT_EQ(config_from_json(Json::parse(to_json(c).dump())), c);
    names.insert(to_string(c));
    hashes.insert(hash(c));
  }
  EXPECT_EQ(names.size(), size_t{kCount});
  EXPECT_EQ(hashes.size(), size_t{kCount});
}

TEST(KernelConfig, EveryNamedValueParses) {
  for (const ConfigField& f : config_fields()) {
    for (size_t i = 0; i < f.names.size(); ++i) {
      EXPECT_EQ(parse_value(f, f.names[i]), static_cast<int>(i));
      EXPECT_EQ(value_text(f, static_cast<int>(i)), f.names[i]);
    }
    if (!f.names.empty()) { EXPECT_FALSE(parse_value(f, "0")) << f.name; }
  }
  EXPECT_EQ(value_text(*find_config_field("pipeline"), 99), "99");  // garbage prints, never crashes
  EXPECT_EQ(value_text(*find_config_field("family"), -1), "-1");
}

TEST(KernelConfig, FieldsThatShareAKeyAreNeighbours) {
  std::set<std::string_view> seen;
  std::string_view last;
  for (const ConfigField& f : config_fields()) {
    if (f.key != last) { EXPECT_TRUE(seen.insert(f.key).second) << f.key; }
    last = f.key;
  }
  EXPECT_LE(config_fields().size(), 64u);  // sets of knobs are 64 bits
}

TEST(KernelConfig, RefusesWithTheReason) {
  EXPECT_NE(refusal("").find("begins with its family"), std::string::npos);
  EXPECT_NE(refusal("cpu_fast tile=6x64").find("begins with its family"), std::string::npos);
  EXPECT_NE(refusal("tile=6x64").find("begins with its family"), std::string::npos);
  EXPECT_NE(refusal("cpu_pakced tile=6x64").find("did you mean 'cpu_packed'?"), std::string::npos);
  EXPECT_NE(refusal("cpu_packed pakc_a=1").find("did you mean 'pack_a='?"), std::string::npos);
  EXPECT_NE(refusal("cpu_packed colour=1").find("knobs are block tile "), std::string::npos);
  EXPECT_NE(refusal("cpu_packed tile=6").find("2 numbers joined by 'x'"), std::string::npos);
  EXPECT_NE(refusal("tma_ws pipeline=fast").find("one of none basic_v1 "), std::string::npos);
  EXPECT_NE(refusal("cpu_packed tiles=6x64").find("unknown knob 'tiles=6x64'"), std::string::npos);
  EXPECT_NE(refusal("cpu_packed tile_m=6").find("unknown knob"), std::string::npos);
  EXPECT_NE(refusal("cpu_packed pack_a").find("unknown knob"), std::string::npos);
  EXPECT_NE(refusal("cpu_packed tile=6x64 tile=6x64").find("given twice"), std::string::npos);
  EXPECT_NE(refusal("cpu_packed family=mfma").find("given twice"), std::string::npos);
  for (const char* text :
       {"tile=6", "tile=6x", "tile=6x64x1", "tile=-6x64", "tile=6x64.5", "tile=", "tile=axb", "pipeline=fast",
        "pipeline=1", "store=", "stages=16777217", "stages=99999999999999999999"}) {
    EXPECT_NE(refusal(std::string("cpu_packed ") + text).find("bad value in '"), std::string::npos) << text;
  }
}

TEST(KernelConfig, JsonRefusesUnknownAndWrong) {
  auto refuses = [](const char* text, const char* reason) {
    try {
      config_from_json(Json::parse(text));
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input);
      EXPECT_NE(std::string(e.what()).find(reason), std::string::npos) << e.what();
    }
  };
  refuses("{}", "missing key 'family'");
  refuses("[]", "not an object");
  refuses(R"({"family": "cpu_packed", "colour": 1})", "unknown knob 'colour'");
  refuses(R"({"family": "cpu_packed", "tile": "6x64"})", "unknown knob 'tile'");
  refuses(R"({"family": "cpu_fast"})", "bad value for knob 'family'");
  refuses(R"({"family": 0})", "bad value for knob 'family'");
  refuses(R"({"family": "mfma", "stages": "2"})", "bad value for knob 'stages'");
  refuses(R"({"family": "mfma", "stages": -2})", "bad value for knob 'stages'");
  refuses(R"({"family": "mfma", "stages": 2.5})", "not an integer");
  refuses(R"({"family": "mfma", "stages": 2, "stages": 3})", "duplicate key");
}

}  // namespace
}  // namespace tessera
