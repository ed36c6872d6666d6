// A config with free knobs: what a declaration by wildcard means.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/kernel_config.h"

namespace tessera {

class ConfigPattern {
 public:
  // "cpu_packed tile=*x64", "* inst=16x16x32": knobs left out or '*' are free. nullopt with the reason in
  // *why.
  static std::optional<ConfigPattern> parse(std::string_view text, std::string* why);

  bool matches(const KernelConfig& c) const;

  // The same for patterns that mean the same: knobs in their order, free ones left out.
  std::string text() const;

 private:
  struct Fixed {
    int KernelConfig::*member;
    int value;
  };
  std::vector<Fixed> fixed_;
};

}  // namespace tessera
