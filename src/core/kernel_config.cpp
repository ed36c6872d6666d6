#include "tessera/kernel_config.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr std::string_view kFamilyNames[] = {
    "cpu_packed", "cpu_direct",   "cpu_dot",     "cpu_amx",    "tma_ws",
    "cp_async",   "simt",         "gemv",        "mfma",       "wmma",
    "cpu_groups", "cpu_winograd", "cpu_scatter", "cpu_planes", "cpu_winograd_weight"};
constexpr std::string_view kPipelines[] = {
    "none",    "basic_v1",     "mem",        "compv3",         "compv4",      "compv5",  "compv6",
    "wavelet", "preshufflev2", "comp_async", "basic_async_v1", "cooperative", "pingpong"};
constexpr std::string_view kSchedulers[] = {"none", "intrawave", "interwave"};
constexpr std::string_view kStores[] = {"direct", "cshuffle"};
constexpr std::string_view kRasters[] = {"along_n", "along_m"};

constexpr int kMostOfKnob = 1 << 24;

constexpr std::span<const std::string_view> names_of(std::string_view field) {
  if (field == "family") return kFamilyNames;
  if (field == "pipeline") return kPipelines;
  if (field == "scheduler") return kSchedulers;
  if (field == "store") return kStores;
  if (field == "raster") return kRasters;
  return {};
}

constexpr ConfigField kFields[] = {
#define TESSERA_ROW(name, key, value, doc) {#name, key, &KernelConfig::name, value, doc, names_of(#name)},
    TESSERA_CONFIG_FIELDS(TESSERA_ROW)
#undef TESSERA_ROW
};

// Fields [first, last) that share a text key.
struct KeyGroup {
  size_t first, last;
};

size_t group_end(size_t first) {
  size_t last = first + 1;
  while (last < std::size(kFields) && kFields[last].key == kFields[first].key) ++last;
  return last;
}

std::optional<KeyGroup> find_key(std::string_view key) {
  for (size_t i = 0; i < std::size(kFields); i = group_end(i)) {
    if (kFields[i].key == key) return KeyGroup{i, group_end(i)};
  }
  return std::nullopt;
}

bool parse_group(KernelConfig& c, KeyGroup g, std::string_view text) {
  auto pieces = g.last - g.first == 1 ? std::vector<std::string_view>{text} : split(text, 'x');
  if (pieces.size() != g.last - g.first) return false;
  for (size_t i = g.first; i < g.last; ++i) {
    auto value = parse_value(kFields[i], pieces[i - g.first]);
    if (!value) return false;
    c.*kFields[i].member = *value;
  }
  return true;
}

// For one who mistyped `key`.
std::string known_knobs(std::string_view key) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < std::size(kFields); i = group_end(i)) {
    if (kFields[i].key != "family") keys.emplace_back(kFields[i].key);
  }
  const std::string hint = typing_hint(key, keys, "=");
  return hint.empty() ? "knobs are " + join(keys, " ") : hint;
}

// What a knob takes.
std::string value_form(KeyGroup g) {
  const ConfigField& first = kFields[g.first];
  if (!first.names.empty()) return "one of " + join(first.names, " ");
  const size_t numbers = g.last - g.first;
  return (numbers == 1 ? "one number" : std::to_string(numbers) + " numbers joined by 'x', each") +
         " from 0 to " + std::to_string(kMostOfKnob);
}

}  // namespace

std::span<const ConfigField> config_fields() { return kFields; }

const ConfigField* find_config_field(std::string_view name) {
  for (const ConfigField& f : kFields) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

std::string value_text(const ConfigField& f, int value) {
  const bool named = value >= 0 && static_cast<size_t>(value) < f.names.size();
  if (!named) return std::to_string(value);
  return std::string(f.names[static_cast<size_t>(value)]);
}

std::optional<int> parse_value(const ConfigField& f, std::string_view text) {
  if (f.names.empty()) {
    auto v = parse_int(text);
    if (!v || *v < 0 || *v > kMostOfKnob) return std::nullopt;
    return static_cast<int>(*v);
  }
  auto found = std::find(f.names.begin(), f.names.end(), text);
  if (found == f.names.end()) return std::nullopt;
  return static_cast<int>(found - f.names.begin());
}

std::optional<KernelConfig> KernelConfig::parse(std::string_view text, std::string* why) {
  std::string unread;
  if (!why) why = &unread;
  auto words = split_words(text);
  KernelConfig c;
  auto family = words.empty() ? std::nullopt : parse_family(words[0]);
  if (!family) {
    const std::string hint =
        words.empty() ? "" : typing_hint(words[0], {std::begin(kFamilyNames), std::end(kFamilyNames)});
    *why = "a config begins with its family" +
           (hint.empty() ? ", one of " + join(kFamilyNames, " ") : "; " + hint);
    return std::nullopt;
  }
  c.family = static_cast<int>(*family);
  std::vector<std::string_view> seen{"family"};
  for (size_t i = 1; i < words.size(); ++i) {
    size_t equals = words[i].find('=');
    std::string_view key = words[i].substr(0, equals);
    auto group = find_key(key);
    if (!group || equals == words[i].npos) {
      *why = "unknown knob '" + std::string(words[i]) + "' in the config; " + known_knobs(key);
      return std::nullopt;
    }
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      *why = "knob '" + std::string(key) + "' is given twice";
      return std::nullopt;
    }
    seen.push_back(key);
    if (!parse_group(c, *group, words[i].substr(equals + 1))) {
      *why = "bad value in '" + std::string(words[i]) + "': " + value_form(*group);
      return std::nullopt;
    }
  }
  return c;
}

KernelConfig KernelConfig::read(std::string_view text) {
  std::string why;
  const auto config = parse(text, &why);
  if (!config) throw Error(ErrorCode::bad_input, "config '" + std::string(text) + "': " + why);
  return *config;
}

std::string to_string(const KernelConfig& c) {
  std::string text(to_string(c.family_id()));
  for (size_t first = 1; first < std::size(kFields);) {
    const size_t last = group_end(first);
    bool is_default = true;
    std::string value;
    for (size_t i = first; i < last; ++i) {
      is_default &= c.*kFields[i].member == kFields[i].default_value;
      value += (i > first ? "x" : "") + value_text(kFields[i], c.*kFields[i].member);
    }
    if (!is_default) text += ' ' + std::string(kFields[first].key) + '=' + value;
    first = last;
  }
  return text;
}

std::string_view to_string(Family f) {
  const auto i = static_cast<size_t>(f);
  return i < std::size(kFamilyNames) ? kFamilyNames[i] : "unknown_family";
}

std::optional<Family> parse_family(std::string_view text) {
  for (size_t i = 0; i < std::size(kFamilyNames); ++i) {
    if (kFamilyNames[i] == text) return static_cast<Family>(i);
  }
  return std::nullopt;
}

uint64_t hash(const KernelConfig& c) {
  uint64_t h = 0x9e3779b97f4a7c15u;
  for (const ConfigField& f : kFields) {
    h = (h ^ static_cast<uint64_t>(c.*f.member)) * 0xbf58476d1ce4e5b9u;
    h ^= h >> 29;
  }
  return h;
}

Json to_json(const KernelConfig& c) {
  Json out = Json::object();
  for (const ConfigField& f : kFields) {
    if (f.names.empty()) {
      out.set(std::string(f.name), c.*f.member);
    } else {
      out.set(std::string(f.name), value_text(f, c.*f.member));
    }
  }
  return out;
}

KernelConfig config_from_json(const Json& j) {
  KernelConfig c;
  j.at("family");
  for (const auto& [key, value] : j.members()) {
    const ConfigField* f = find_config_field(key);
    if (!f) throw Error(ErrorCode::bad_input, "unknown knob '" + key + "' in a config");
    const bool word = !f->names.empty();
    auto parsed = word == value.is_string()
                      ? parse_value(*f, word ? value.as_string() : std::to_string(value.as_int()))
                      : std::nullopt;
    if (!parsed) throw Error(ErrorCode::bad_input, "bad value for knob '" + key + "'");
    c.*f->member = *parsed;
  }
  return c;
}

}  // namespace tessera
