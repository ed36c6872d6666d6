#include "runtime/config_pattern.h"

#include "base/text.h"

namespace tessera {

std::optional<ConfigPattern> ConfigPattern::parse(std::string_view text, std::string* why) {
  auto words = split_words(text);
  if (words.empty()) {
    *why = "a pattern begins with a family or '*'";
    return std::nullopt;
  }
  ConfigPattern pattern;
  // Parses as a config once its stars are replaced by a value every knob accepts; then keeps only what was
  // not a star.
  std::string concrete;
  std::vector<bool> free(config_fields().size(), true);
  for (size_t w = 0; w < words.size(); ++w) {
    size_t equals = words[w].find('=');
    if (w == 0) {
      const bool any = words[0] == "*";
      concrete += any ? std::string(to_string(Family{})) : std::string(words[0]);
      free[0] = any;
      continue;
    }
    std::string_view key = words[w].substr(0, equals);
    const size_t word_begin = concrete.size();
    bool too_few = false;
    concrete += ' ' + std::string(key) + '=';
    auto values = split(equals == words[w].npos ? "" : words[w].substr(equals + 1), 'x');
    size_t index = 0;
    for (size_t f = 0; f < config_fields().size(); ++f) {
      const ConfigField& field = config_fields()[f];
      if (field.key != key) continue;
      const bool all_free = values.size() == 1 && values[0] == "*";  // block=* frees all three
      std::string_view value = all_free || index >= values.size() ? "*" : values[index];
      too_few |= !all_free && index >= values.size() && field.names.empty();
      // Names of enumerated knobs may hold an 'x': they stand alone under their key.
      if (!field.names.empty()) value = equals == words[w].npos ? "" : words[w].substr(equals + 1);
      free[f] = value == "*";
      concrete += (index ? "x" : "") + (free[f] ? value_text(field, 0) : std::string(value));
      ++index;
    }
    if (index == 0 || (index < values.size() && index > 1) || equals == words[w].npos) {
      *why = "unknown knob or too many values in '" + std::string(words[w]) + "'";
      return std::nullopt;
    }
    if (too_few) {
      *why = "'" + std::string(words[w]) + "' needs " + std::to_string(index) +
             " values, each a number or '*', or one '*' for all";
      return std::nullopt;
    }
    std::string slip;
    if (!KernelConfig::parse(std::string(to_string(Family{})) + concrete.substr(word_begin), &slip)) {
      *why = "bad value in '" + std::string(words[w]) + "'";
      return std::nullopt;
    }
  }
  auto config = KernelConfig::parse(concrete, why);
  if (!config) return std::nullopt;
  for (size_t f = 0; f < config_fields().size(); ++f) {
    if (!free[f]) pattern.fixed_.push_back({config_fields()[f].member, (*config).*config_fields()[f].member});
  }
  return pattern;
}

std::string ConfigPattern::text() const {
  const auto fields = config_fields();
  auto next = fixed_.begin();
  const auto value_of = [&](const ConfigField& f) {
    if (next == fixed_.end() || next->member != f.member) return std::string("*");
    return value_text(f, (next++)->value);
  };
  std::string out = value_of(fields[0]);
  for (size_t f = 1; f < fields.size();) {
    const std::string_view key = fields[f].key;
    const auto before = next;
    std::string values;
    for (; f < fields.size() && fields[f].key == key; ++f)
      values += (values.empty() ? "" : "x") + value_of(fields[f]);
    if (next != before) out += ' ' + std::string(key) + '=' + values;
  }
  return out;
}

bool ConfigPattern::matches(const KernelConfig& c) const {
  for (const Fixed& f : fixed_) {
    if (c.*f.member != f.value) return false;
  }
  return true;
}

}  // namespace tessera
