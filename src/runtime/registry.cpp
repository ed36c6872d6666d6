#include "tessera/registry.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "base/text.h"
#include "core/family.h"
#include "core/json_values.h"
#include "runtime/config_pattern.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr int kRegistryVersion = 1;
constexpr int64_t kMostPriority = 1000000;

std::string priority_hint() {
  const std::string most = std::to_string(kMostPriority);
  return "priorities are whole numbers from -" + most + " to " + most;
}

void check_priority(int64_t priority) {
  if (priority < -kMostPriority || priority > kMostPriority)
    throw Error(ErrorCode::bad_input, "bad priority " + std::to_string(priority), priority_hint());
}

// Aliases become the types' names; words with wildcards stay as they are.
std::string with_type_names(std::string_view pattern) {
  std::vector<std::string> words;
  for (std::string_view word : split(pattern, 'x')) {
    const auto type = parse_dtype(word);
    words.emplace_back(type ? to_string(*type) : word);
  }
  return join(words, "x");
}

bool is_for(const KernelDecl& d, const Problem& p, std::string_view arch) {
  return glob_match(d.dtype, types_text(p.a, p.b)) && glob_match(d.layout, to_string(p.layout)) &&
         glob_match(d.arch, arch);
}

bool same_identity(KernelDecl x, const KernelDecl& y) {
  x.priority = y.priority;
  return x == y;
}

bool matches_some_dtype(std::string_view pattern) {
  for (int a = 0; a < kDTypeCount; ++a) {
    for (int b = 0; b < kDTypeCount; ++b) {
      if (glob_match(pattern, types_text(static_cast<DType>(a), static_cast<DType>(b)))) return true;
    }
  }
  return false;
}

bool matches_some_layout(std::string_view pattern) {
  const std::string names = layout_names();
  return std::ranges::any_of(split_words(names), [&](std::string_view l) { return glob_match(pattern, l); });
}

// A pattern that nothing can ever match is a slip. Architectures may be others than this library has, so
// their patterns are only held to the characters of a name.
void check_patterns(const KernelDecl& d) {
  if (!matches_some_dtype(d.dtype))
    throw Error(ErrorCode::bad_input, "dtype pattern '" + d.dtype + "' matches no type",
                "types are " + dtype_names());
  if (!matches_some_layout(d.layout))
    throw Error(ErrorCode::bad_input, "layout pattern '" + d.layout + "' matches no layout",
                "layouts are " + layout_names());
  const bool is_name = d.arch.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_*?") == d.arch.npos;
  if (d.arch.empty() || !is_name)
    throw Error(ErrorCode::bad_input, "arch pattern '" + d.arch + "' can name no architecture");
}

// One line of a kernel-set file; the words that are not the declaration's own belong to the config.
KernelDecl parse_line(std::string_view line) {
  auto words = split_words(line);
  KernelDecl decl;
  if (words[0] != "exact" && words[0] != "any") {
    throw Error(ErrorCode::bad_input,
                "a line begins with 'exact' or 'any', not '" + std::string(words[0].substr(0, 40)) + "'");
  }
  decl.exact = words[0] == "exact";
  std::vector<std::string_view> keys;
  for (size_t i = 1; i < words.size(); ++i) {
    size_t equals = words[i].find('=');
    std::string_view key = words[i].substr(0, equals);
    if (std::find(keys.begin(), keys.end(), key) != keys.end())
      throw Error(ErrorCode::bad_input, "'" + std::string(key) + "' is given twice");
    keys.push_back(key);
    std::string value(equals == words[i].npos ? "" : words[i].substr(equals + 1));
    if (key == "dtype") {
      decl.dtype = value;
    } else if (key == "layout") {
      decl.layout = value;
    } else if (key == "arch") {
      decl.arch = value;
    } else if (key == "priority") {
      auto v = parse_int(value);
      if (!v) throw Error(ErrorCode::bad_input, "bad priority '" + value + "'", priority_hint());
      check_priority(*v);
      decl.priority = static_cast<int>(*v);
    } else {
      decl.config += (decl.config.empty() ? "" : " ") + std::string(words[i]);
    }
  }
  return decl;
}

}  // namespace

struct Registry::Entry {
  KernelDecl decl;
  ConfigPattern pattern;               // of a pattern
  std::optional<KernelConfig> config;  // of an exact declaration

  explicit Entry(KernelDecl d) : decl(std::move(d)) {
    decl.dtype = with_type_names(decl.dtype);
    check_patterns(decl);
    check_priority(decl.priority);
    std::string why;
    if (decl.exact) {
      config = KernelConfig::parse(decl.config, &why);
      if (config) decl.config = to_string(*config);
    } else if (auto parsed = ConfigPattern::parse(decl.config, &why)) {
      pattern = *parsed;
      decl.config = pattern.text();
    }
    if (!why.empty()) throw Error(ErrorCode::bad_input, "declaration '" + decl.config + "': " + why);
  }

  bool allows(const KernelConfig& c) const { return decl.exact ? *config == c : pattern.matches(c); }
};

Registry::Registry(std::string name) : name_(std::move(name)) {}
Registry::~Registry() = default;

Registry::Registry(const Registry& other) : name_(other.name_) {
  std::shared_lock lock(other.mutex_);
  entries_ = other.entries_;
}

std::shared_ptr<Registry> Registry::parse(std::string_view text, std::string_view name) {
  if (trim(text).starts_with('{')) {
    const Json json = Json::parse(text, name);
    try {
      return from_json(json);
    } catch (const Error& e) { throw e.on(std::string(name)); }
  }
  auto out = std::make_shared<Registry>(std::string(name));
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    try {
      out->add(parse_line(line));
    } catch (const Error& e) { throw e.on(std::string(name) + " line " + std::to_string(number)); }
  }
  return out;
}

bool Registry::add_locked(Entry entry) {
  for (Entry& old : entries_) {
    if (!same_identity(old.decl, entry.decl)) continue;
    if (entry.decl.priority <= old.decl.priority) return false;
    old.decl.priority = entry.decl.priority;
    return true;
  }
  entries_.push_back(std::move(entry));
  return true;
}

bool Registry::add(const KernelDecl& decl) {
  Entry entry(decl);
  std::unique_lock lock(mutex_);
  return add_locked(std::move(entry));
}

size_t Registry::size() const {
  std::shared_lock lock(mutex_);
  return entries_.size();
}

std::vector<KernelDecl> Registry::all() const {
  std::shared_lock lock(mutex_);
  std::vector<KernelDecl> out;
  for (const Entry& e : entries_) out.push_back(e.decl);
  return out;
}

void Registry::clear() {
  std::unique_lock lock(mutex_);
  entries_.clear();
}

size_t Registry::merge(const Registry& other) {
  const Registry copy(other);  // so that two registries may merge each other at once
  std::unique_lock lock(mutex_);
  return static_cast<size_t>(std::count_if(copy.entries_.begin(), copy.entries_.end(),
                                           [&](const Entry& e) { return add_locked(e); }));
}

size_t Registry::filter(const std::function<bool(const KernelDecl&)>& keep) {
  // Asked without the lock and of copies: the predicate is the caller's code.
  std::unordered_set<std::string> dropped;
  for (const KernelDecl& d : all()) {
    if (!keep(d)) dropped.insert(tessera::to_json(d).dump());
  }
  if (dropped.empty()) return 0;
  std::unique_lock lock(mutex_);
  return std::erase_if(entries_,
                       [&](const Entry& e) { return dropped.count(tessera::to_json(e.decl).dump()) > 0; });
}

size_t Registry::filter_by_arch(std::string_view arch) {
  return filter([&](const KernelDecl& d) { return glob_match(d.arch, arch); });
}

bool Registry::find(const Problem& problem, std::string_view arch, const KernelConfig& config,
                    int* priority) const {
  std::shared_lock lock(mutex_);
  bool found = false;
  for (const Entry& e : entries_) {
    if (!is_for(e.decl, problem, arch) || !e.allows(config)) continue;
    *priority = found ? std::max(*priority, e.decl.priority) : e.decl.priority;
    found = true;
  }
  return found;
}

bool Registry::applies(const Problem& problem, std::string_view arch) const {
  std::shared_lock lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& e) { return is_for(e.decl, problem, arch); });
}

std::vector<KernelConfig> Registry::exact_configs(const Problem& problem, std::string_view arch) const {
  std::shared_lock lock(mutex_);
  std::vector<KernelConfig> out;
  for (const Entry& e : entries_) {
    if (e.decl.exact && is_for(e.decl, problem, arch)) out.push_back(*e.config);
  }
  return out;
}

Json to_json(const KernelDecl& d) {
  return Json::object({{"config", d.config},
                       {"exact", d.exact},
                       {"dtype", d.dtype},
                       {"layout", d.layout},
                       {"arch", d.arch},
                       {"priority", d.priority}});
}

Json Registry::to_json() const {
  const auto decls = all();
  // How many declarations name each value; '*' where they leave it free.
  Json kernels = Json::array(), by_family = Json::object(), by_pipeline = Json::object(),
       by_scheduler = Json::object(), by_dtype = Json::object(), by_layout = Json::object(),
       by_arch = Json::object();
  auto count = [](Json& table, std::string_view value) {
    const std::string key(value);
    const Json* old = table.find(key);
    table.set(key, (old ? old->as_int() : 0) + 1);
  };
  for (const KernelDecl& d : decls) {
    kernels.push(tessera::to_json(d));
    const auto words = split_words(d.config);
    const auto named = [&](std::string_view key) {
      for (std::string_view word : words) {
        if (word.starts_with(key)) return word.substr(key.size());
      }
      return std::string_view("*");
    };
    count(by_family, words[0]);
    count(by_pipeline, named("pipeline="));
    count(by_scheduler, named("scheduler="));
    count(by_dtype, d.dtype);
    count(by_layout, d.layout);
    count(by_arch, d.arch);
  }
  return Json::object({{"version", kRegistryVersion},
                       {"name", name_},
                       {"statistics", Json::object({{"total", static_cast<int64_t>(decls.size())},
                                                    {"family", by_family},
                                                    {"pipeline", by_pipeline},
                                                    {"scheduler", by_scheduler},
                                                    {"dtype", by_dtype},
                                                    {"layout", by_layout},
                                                    {"arch", by_arch}})},
                       {"kernels", kernels}});
}

std::shared_ptr<Registry> Registry::from_json(const Json& json) {
  Members file(json);
  if (const Json& version = file.at("version"); version.as_int() != kRegistryVersion) {
    throw Error(ErrorCode::unsupported, "registry format version " + version.dump(),
                "export it again with this version");
  }
  auto out = std::make_shared<Registry>(file.at("name").as_string());
  file.find("statistics");  // what the kernels say, counted for readers
  const Json& kernels = file.at("kernels");
  file.finish();
  int64_t number = 0;
  for (const Json& item : kernels.items()) {
    at("kernel " + std::to_string(++number), [&] {
      Members in(item);
      const int64_t priority = in.at("priority").as_int();
      check_priority(priority);
      KernelDecl decl{in.at("config").as_string(), in.at("exact").as_bool(),  in.at("dtype").as_string(),
                      in.at("layout").as_string(), in.at("arch").as_string(), static_cast<int>(priority)};
      in.finish();
      out->add(std::move(decl));
    });
  }
  return out;
}

}  // namespace tessera
