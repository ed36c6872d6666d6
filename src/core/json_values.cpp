#include "core/json_values.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace tessera {

const Json* Members::find(std::string_view key) {
  const Json* found = object_.find(key);
  if (found) --left_, known_.emplace_back(key);
  return found;
}

const Json& Members::at(std::string_view key) {
  const Json* found = find(key);
  if (!found) bad_value("missing key '" + std::string(key) + "'");
  return *found;
}

void Members::finish(const std::vector<std::string>& all_keys) const {
  if (left_ == 0) return;
  for (const auto& [key, value] : object_.members()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string hint = typing_hint(key, all_keys);
    bad_value("unknown key '" + key + "'", hint.empty() ? "remove it" : hint);
  }
}

int64_t read_count(const Json& j, int64_t low, int64_t high) {
  const int64_t v = j.as_int();
  if (v < low || v > high)
    bad_value(std::to_string(v) + " is not in " + std::to_string(low) + ".." + std::to_string(high));
  return v;
}

int read_int(const Json& j, int low, int high) { return static_cast<int>(read_count(j, low, high)); }

double read_number(const Json& j, double low) {
  const double v = j.as_double();
  if (!(v >= low) || !std::isfinite(v)) bad_value(number_text(v) + " is less than " + number_text(low));
  return v;
}

int read_word(const Json& j, std::span<const std::string_view> names) {
  auto found = std::find(names.begin(), names.end(), j.as_string());
  if (found != names.end()) return static_cast<int>(found - names.begin());
  bad_value("unknown word '" + j.as_string() + "'", "one of " + join(names, " "));
}

std::vector<std::string> read_strings(const Json& j) {
  std::vector<std::string> out;
  for (const Json& item : j.items()) {
    if (item.as_string().empty()) bad_value("an empty word");
    if (std::find(out.begin(), out.end(), item.as_string()) != out.end())
      bad_value("'" + item.as_string() + "' is listed twice");
    out.push_back(item.as_string());
  }
  return out;
}

Json write_strings(const std::vector<std::string>& values) {
  Json out = Json::array();
  for (const std::string& v : values) out.push(v);
  return out;
}

Triple read_triple(const Json& j) {
  const auto pieces = split(j.as_string(), 'x');
  Triple out{};
  for (size_t i = 0; i < 3; ++i) {
    auto v = pieces.size() == 3 ? parse_int(pieces[i]) : std::nullopt;
    if (!v || *v < 1 || *v > 65536)
      bad_value("'" + j.as_string() + "' is not three positive numbers joined by 'x'");
    out[i] = static_cast<int>(*v);
  }
  return out;
}

std::string triple_text(const Triple& t) {
  return std::to_string(t[0]) + 'x' + std::to_string(t[1]) + 'x' + std::to_string(t[2]);
}

}  // namespace tessera
