// Problems and random configurations that the tests of this layer share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

inline KernelConfig config(const std::string& text) {
  std::string why;
  auto c = KernelConfig::parse(text, &why);
  EXPECT_TRUE(c) << text << ": " << why;
  return c.value_or(KernelConfig{});
}

inline GemmView view(const std::string& text) { return lower(Problem::parse(text)); }

// The operand types of an architecture's instructions, as the text form names them.
inline std::vector<std::string> dtypes_of(const ArchSpec& a) {
  std::vector<std::string> out;
  for (const Instruction& i : a.instructions) {
    std::string text(to_string(i.a));
    if (i.b != i.a) text += "x" + std::string(to_string(i.b));
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(text);
  }
  return out;
}

// Anything at all in every knob.
inline KernelConfig garbage(std::mt19937& random) {
  constexpr int kTempting[] = {0,  1,   2,   3,  4,   8,     15,      16,        17,       32,
                               64, 128, 256, -1, -64, 65536, 1 << 24, INT32_MAX, INT32_MIN};
  KernelConfig c;
  for (const ConfigField& f : config_fields()) {
    switch (random() % 4) {
      case 0: break;
      case 1: c.*f.member = static_cast<int>(random()); break;
      default: c.*f.member = kTempting[random() % std::size(kTempting)];
    }
  }
  return c;
}

// A candidate with some knobs replaced: nearly legal.
inline KernelConfig disturbed(KernelConfig c, std::mt19937& random) {
  const auto fields = config_fields();
  for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
    const ConfigField& f = fields[1 + random() % (fields.size() - 1)];
    const int values = f.names.empty() ? 300 : static_cast<int>(f.names.size());
    c.*f.member = static_cast<int>(random() % values);
  }
  return c;
}

}  // namespace tessera
