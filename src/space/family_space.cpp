#include "space/family_space.h"

#include <algorithm>

#include "base/embedded.h"
#include "base/text.h"
#include "core/json_values.h"

namespace tessera {
namespace {

KnobValue read_value(const KnobSpace& k, const Json& j) {
  const std::string text = j.is_string() ? j.as_string() : std::to_string(j.as_int());
  const auto pieces = k.fields.size() == 1 ? std::vector<std::string_view>{text} : split(text, 'x');
  KnobValue out{};
  for (size_t i = 0; i < k.fields.size(); ++i) {
    auto value = pieces.size() == k.fields.size() ? parse_value(*k.fields[i], pieces[i]) : std::nullopt;
    if (!value) bad_value("bad value '" + text + "'");
    out[i] = *value;
  }
  return out;
}

void read_list(KnobSpace& k, const Json& list) {
  for (const Json& item : list.items()) {
    const KnobValue value = read_value(k, item);
    if (std::find(k.listed.begin(), k.listed.end(), value) != k.listed.end())
      bad_value("'" + item.dump() + "' is listed twice");
    k.listed.push_back(value);
  }
  if (k.listed.empty()) bad_value("an empty list of values");
}

const ValueSource* find_source(const std::string& name) {
  std::string names;
  for (const ValueSource& s : value_sources()) {
    if (s.name == name) return &s;
    names += ' ' + std::string(s.name);
  }
  bad_value("unknown source '" + name + "'", "one of" + names);
}

// [values], "source" or {"from": "source", "values": [...], "limit": n}.
KnobSpace read_knob(const std::string& name, const Json& j) {
  KnobSpace k;
  k.name = name;
  for (std::string_view word : split_words(name)) {
    const size_t before = k.fields.size();
    for (const ConfigField& f : config_fields()) {
      if (f.name == word || (f.key == word && !find_config_field(word))) k.fields.push_back(&f);
    }
    if (k.fields.size() == before || word == "family") bad_value("unknown knob '" + std::string(word) + "'");
  }
  if (k.fields.empty() || k.fields.size() > KnobValue{}.size())
    bad_value("one to three knobs are decided together");
  if (j.is_array()) {
    k.source = find_source("list");
    read_list(k, j);
    return k;
  }
  if (j.is_string()) {
    k.source = find_source(j.as_string());
    return k;
  }
  for (const auto& [key, value] : j.members()) {
    if (key == "from") {
      k.source = find_source(value.as_string());
    } else if (key == "values") {
      read_list(k, value);
    } else if (key == "limit") {
      k.limit = value.as_int();
    } else {
      bad_value("unknown key '" + key + "'", "one of from values limit");
    }
  }
  if (!k.source) bad_value("missing key 'from'");
  return k;
}

int index_of(const ConfigField& f) { return static_cast<int>(&f - config_fields().data()); }

void read_knobs(FamilySpace& out, const Json& j) {
  out.knob_set = 1;
  for (const auto& [name, value] : j.members()) {
    at(name, [&, &name = name, &value = value] {
      KnobSpace k = read_knob(name, value);
      for (const ConfigField* f : k.fields) {
        const uint64_t bit = uint64_t{1} << index_of(*f);
        if (out.knob_set & bit) bad_value("knob '" + std::string(f->name) + "' is decided twice");
        out.knob_set |= bit;
      }
      out.knobs.push_back(std::move(k));
    });
  }
}

void read_key(FamilySpace& out, const std::string& key, const Json& value) {
  if (key == "family") {
    auto family = parse_family(value.as_string());
    if (!family) bad_value("unknown family '" + value.as_string() + "'");
    out.family = *family;
  } else if (key == "doc") {
    value.as_string();
  } else if (key == "instructions") {
    for (const Json& name : value.items()) out.instructions.push_back(name.as_string());
  } else if (key == "types") {
    for (const Json& name : value.items()) {
      auto type = parse_dtype(name.as_string());
      if (!type) bad_value("unknown dtype '" + name.as_string() + "'", "one of " + dtype_names());
      out.types.push_back(*type);
    }
  } else if (key == "max_work") {
    out.max_work = value.as_int();
  } else if (key == "max_narrow") {
    out.max_narrow = value.as_int();
  } else if (key == "knobs") {
    read_knobs(out, value);
  } else if (key == "leading") {
    for (const Json& name : value.items()) out.leading.push_back(name.as_string());
  } else {
    bad_value("unknown key", "one of family doc instructions types max_work max_narrow knobs leading");
  }
}

void check_leading(const FamilySpace& f) {
  auto from = f.knobs.begin();
  for (const std::string& name : f.leading) {
    from = std::find_if(from, f.knobs.end(), [&](const KnobSpace& k) { return k.name == name; });
    if (from++ == f.knobs.end()) bad_value("'" + name + "' is none of the knobs, or one before the last");
  }
}

std::vector<FamilySpace> load_all() {
  std::vector<FamilySpace> out;
  for (const FamilyInfo& f : families()) {
    const std::string path = "space/" + std::string(to_string(f.family)) + ".json";
    const EmbeddedFile* file = find_embedded_file(path);
    if (!file) throw Error(ErrorCode::internal, path + " is not part of this binary");
    out.push_back(parse_family_space(file->text, path));
    if (out.back().family != f.family)
      bad_value(path + ": family is '" + std::string(to_string(out.back().family)) + "'");
  }
  return out;
}

}  // namespace

bool FamilySpace::offers(const GemmView& v) const {
  const double work = static_cast<double>(v.m) * v.n * std::max<int64_t>(v.k, 1);
  const bool small = max_work && work <= static_cast<double>(max_work);
  const bool narrow = max_narrow && std::min(v.m, v.n) <= max_narrow;
  return small || narrow || (!max_work && !max_narrow);
}

bool FamilySpace::issues(const Instruction& i, DType a, DType b, bool with_preshuffle) const {
  if (i.a != a || i.b != b || !(with_preshuffle ? i.preshuffle : i.standard)) return false;
  if (!types.empty() && std::find(types.begin(), types.end(), a) == types.end()) return false;
  return std::find(instructions.begin(), instructions.end(), i.name) != instructions.end();
}

FamilySpace parse_family_space(std::string_view json_text, std::string_view origin) {
  const Json json = Json::parse(json_text, origin);
  FamilySpace out;
  at(origin, [&] {
    for (const char* key : {"family", "instructions", "knobs"}) json.at(key);
    for (const auto& [key, value] : json.members())
      at(key, [&, &k = key, &v = value] { read_key(out, k, v); });
    at("leading", [&] { check_leading(out); });
  });
  return out;
}

const FamilySpace& family_space(Family f) {
  static const auto& spaces =
      *new std::vector<FamilySpace>(load_all());  // for threads while the process ends
  return spaces[static_cast<size_t>(f)];
}

}  // namespace tessera
