// What the tests of the rules ask.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "space/rules.h"
#include "space_test_problems.h"

namespace tessera {

// The name of the rule that refuses; "" when legal.
inline std::string verdict(const std::string& arch, const std::string& problem, const std::string& text) {
  const Rule* rule = rejected_by(view(problem), config(text), find_arch(arch));
  return rule ? std::string(rule->name) : "";
}

inline bool refuses(const std::string& rule, const GemmView& v, const KernelConfig& c, const ArchSpec& a) {
  auto row = std::find_if(rules().begin(), rules().end(), [&](const Rule& r) { return r.name == rule; });
  EXPECT_NE(row, rules().end()) << rule;
  return !row->allows(v, c, a);
}

// Whether that one rule refuses, whatever the others say.
inline bool refuses(const std::string& rule, const std::string& arch, const std::string& problem,
                    const std::string& text) {
  return refuses(rule, view(problem), config(text), find_arch(arch));
}

}  // namespace tessera
