#include "runtime/kernel_cache_store.h"

#include <stdio.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/fs.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"

namespace tessera {
namespace {

constexpr int kEntryVersion = 1;
constexpr std::string_view kBinaryFile = "/kernel.so", kMetaFile = "/meta.json";
constexpr std::string_view kFailed = "/failed", kLocks = "/locks", kScratch = "/scratch";
constexpr size_t kRoom = size_t{1} << 18;  // what a compile needs at most
constexpr size_t kMostFailures = 1000;     // remembered, and logs kept

std::string now_text() {
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string operator+(const std::string& a, std::string_view b) { return std::string(a).append(b); }

bool is_fan_out(std::string_view name) { return name.size() == 2 && is_hex(name); }

// What the cache names so itself, and nothing that somebody else keeps in the same directory: UNIT.COMPILER.
bool is_entry(std::string_view name) {
  const size_t dot = name.find('.');
  return dot == kContentHashLength && is_hex(name.substr(0, dot)) && is_hex(name.substr(dot + 1));
}
bool is_failure(std::string_view name) {
  constexpr std::string_view kEnd = ".json";
  return name.ends_with(kEnd) && is_entry(name.substr(0, name.size() - kEnd.size()));
}

EntryMeta parse_meta(std::string_view text) {
  const Json j = Json::parse(text, "meta.json");
  if (j.at("version").as_int() != kEntryVersion)
    throw Error(ErrorCode::corrupt, "it is of another format version");
  return {j.at("symbol").as_string(),   j.at("arch").as_string(), j.at("compiler").as_string(),
          j.at("checksum").as_string(), j.at("length").as_int(),  static_cast<int>(j.at("abi").as_int())};
}

// Reads one entry. Empty `why` and no bytes: it is not there (or was removed whole while we looked).
struct Loaded {
  std::optional<Binary> binary;
  EntryMeta meta;
  std::string why;
};

Loaded load(const std::string& path) {
  Loaded out;
  errno = 0;
  auto meta = try_read_file(path + kMetaFile);
  auto bytes = meta ? try_read_file(path + kBinaryFile) : std::nullopt;
  if (!meta || !bytes) {
    constexpr std::array kBlameless = {EMFILE, ENFILE, ENOMEM, ESTALE, ETIMEDOUT};  // of the entry
    if (std::find(kBlameless.begin(), kBlameless.end(), errno) != kBlameless.end()) return out;
    if (path_exists(path)) out.why = meta ? "kernel.so is missing" : "meta.json is missing";
    return out;
  }
  try {
    out.meta = parse_meta(*meta);
  } catch (const Error& e) {
    out.why = "meta.json: " + e.what_happened();
    return out;
  }
  out.why = why_untrusted(path + kBinaryFile);
  if (!out.why.empty() && !path_exists(path + kBinaryFile)) return {};  // removed since it was read
  if (!out.why.empty()) {
    out.why = "kernel.so " + out.why;
  } else if (static_cast<int64_t>(bytes->size()) != out.meta.length) {
    out.why = format("kernel.so has %zu bytes instead of %lld", bytes->size(),
                     static_cast<long long>(out.meta.length));
  } else if (content_hash(*bytes) != out.meta.checksum) {
    out.why = "kernel.so does not match its checksum";
  } else {
    out.binary = Binary{out.meta.symbol, std::move(*bytes)};
  }
  return out;
}

}  // namespace

std::string CacheStore::why_unusable() const {
  return path_exists(root_) ? why_untrusted(root_) : std::string();
}

std::string CacheStore::entry_name(const std::string& unit_key, std::string_view compiler) {
  return unit_key + "." + content_hash(compiler).substr(0, 8);
}

std::string CacheStore::path_of(const std::string& entry) const {
  return root_ + '/' + entry.substr(0, 2) + '/' + entry.substr(2, 2) + '/' + entry;
}

std::vector<std::string> CacheStore::builds_of(const std::string& unit_key, std::string_view compiler) const {
  if (!compiler.empty()) return {entry_name(unit_key, compiler)};
  std::vector<std::string> builds;
  const std::string folder = root_ + '/' + unit_key.substr(0, 2) + '/' + unit_key.substr(2, 2);
  for (const std::string& name : list_directory(folder)) {
    if (name.starts_with(unit_key + ".")) builds.push_back(name);
  }
  return builds;
}

std::optional<Binary> CacheStore::find(const std::string& unit_key, std::string_view compiler,
                                       const Source& source) {
  for (const std::string& entry : builds_of(unit_key, compiler)) {
    const std::string path = path_of(entry);
    Loaded loaded = load(path);
    const EntryMeta& m = loaded.meta;
    if (loaded.binary && (m.symbol != source.symbol || m.arch != source.arch || m.abi != kKernelAbi ||
                          (!compiler.empty() && m.compiler != compiler))) {
      loaded.why = "meta.json is of another kernel";
    }
    if (!loaded.why.empty()) {
      warn_once("entry " + path, "kernel cache entry '" + path + "' is damaged (" + loaded.why +
                                     ") and is built anew; `tessera cache verify` checks the others");
      discard_path(path);
      continue;
    }
    if (!loaded.binary) continue;
    if (!read_only_) touch(path + kMetaFile);
    return std::move(loaded.binary);
  }
  return std::nullopt;
}

bool CacheStore::contains(const std::string& unit_key, std::string_view compiler) const {
  const auto builds = builds_of(unit_key, compiler);
  return std::any_of(builds.begin(), builds.end(),
                     [&](const std::string& entry) { return path_exists(path_of(entry) + kMetaFile); });
}

void CacheStore::discard(const std::string& unit_key, std::string_view compiler) const {
  for (const std::string& entry : builds_of(unit_key, compiler)) discard_path(path_of(entry));
}

int64_t CacheStore::publish(const std::string& entry, const Binary& binary, const Source& source,
                            std::string_view compiler) {
  const std::string meta = Json::object({{"version", kEntryVersion},
                                         {"symbol", binary.symbol},
                                         {"arch", source.arch},
                                         {"compiler", compiler},
                                         {"abi", kKernelAbi},
                                         {"length", static_cast<int64_t>(binary.bytes.size())},
                                         {"checksum", content_hash(binary.bytes)},
                                         {"created", now_text()}})
                               .dump(1);
  TempDir temp(scratch());
  write_file(temp.path() + kBinaryFile, binary.bytes, true);
  write_file(temp.path() + kMetaFile, meta, true);
  const std::string target = path_of(entry);
  make_directories(target.substr(0, target.find_last_of('/')));
  return temp.rename_to(target) ? static_cast<int64_t>(binary.bytes.size() + meta.size()) : 0;
}

std::optional<Error> CacheStore::find_failure(const std::string& entry) const {
  const std::string path = root_ + kFailed + "/" + entry + ".json";
  auto text = try_read_file(path);
  if (!text) return std::nullopt;
  try {
    const Json j = Json::parse(*text, path);
    return Error(ErrorCode::compile_failed, j.at("error").as_string(),
                 j.at("remedy").as_string() + " (remembered from " + j.at("created").as_string() +
                     "; `tessera cache clear` forgets it)");
  } catch (const Error&) {
    discard_path(path);
    return std::nullopt;
  }
}

void CacheStore::publish_failure(const std::string& entry, const Error& error, std::string_view compiler) {
  make_directories(root_ + kFailed);
  write_file_whole(root_ + kFailed + "/" + entry + ".json", Json::object({{"error", error.what_happened()},
                                                                          {"remedy", error.what_to_do()},
                                                                          {"compiler", compiler},
                                                                          {"created", now_text()}})
                                                                .dump(1));
  forget_old_failures();
}

std::string CacheStore::scratch() const {
  make_directories(root_ + kScratch);
  return root_ + kScratch;
}

std::string CacheStore::why_unwritable() const {
  try {
    TempDir temp(scratch());
    write_file(temp.path() + "/room", std::string(kRoom, '\1'));
    return "";
  } catch (const Error& e) { return e.what_happened(); }
}

std::string CacheStore::lock_path(const std::string& entry) const {
  make_directories(root_ + kLocks);
  return root_ + kLocks + "/" + entry;
}

// With no place to keep anything "" + "/failed" would be somebody else's.
std::vector<std::string> CacheStore::names_in(std::string_view part) const {
  return root_.empty() ? std::vector<std::string>() : list_directory(root_ + part);
}

std::vector<CacheStore::Entry> CacheStore::entries() const {
  std::vector<Entry> all;
  for (const std::string& first : names_in("")) {
    if (!is_fan_out(first) || is_link(root_ + '/' + first)) continue;
    for (const std::string& second : list_directory(root_ + '/' + first)) {
      const std::string folder = root_ + '/' + first + '/' + second;
      if (!is_fan_out(second) || is_link(folder)) continue;
      for (const std::string& name : list_directory(folder)) {
        if (!is_entry(name)) continue;
        const std::string path = folder + '/' + name;
        const auto stamp = file_stamp(path + kMetaFile);
        all.push_back({name, path, disk_usage(path), stamp ? stamp->modified_ns : 0});
      }
    }
  }
  return all;
}

size_t CacheStore::failures() const {
  const auto names = names_in(kFailed);
  return static_cast<size_t>(std::count_if(names.begin(), names.end(), is_failure));
}

std::string CacheStore::why_damaged(const Entry& entry) const {
  const Loaded loaded = load(entry.path);
  return loaded.why;
}

void CacheStore::remove(const Entry& entry) const { discard_path(entry.path); }

// Moved aside first: a reader finds all of an entry or none of it.
void CacheStore::discard_path(const std::string& path) const {
  if (read_only_) return;
  try {
    TempDir temp(scratch());
    if (rename(path.c_str(), (temp.path() + "/removed").c_str()) == 0) return;
  } catch (const Error&) {}  // no room for a directory: then in place
  remove_all(path);
}

void CacheStore::sweep() const {
  for (const std::string& name : names_in(kScratch)) {
    const std::string path = root_ + kScratch + "/" + name;
    if (is_abandoned_temp_dir(path)) remove_all(path);
  }
  for (const std::string& name : names_in(kLocks)) {
    const std::string path = root_ + kLocks + "/" + name;
    if (!is_entry(name)) continue;
    // Whoever locks a removed file builds beside another one at worst, and publishing settles that.
    if (FileLock lock = FileLock::try_lock(path)) remove_all(path);
  }
}

std::vector<std::string> CacheStore::failure_files() const {
  std::vector<std::string> files;
  for (const std::string& name : names_in(kFailed)) {
    if (is_failure(name)) files.push_back(root_ + kFailed + "/" + name);
  }
  for (const std::string& name : names_in(kScratch)) {
    if (name.starts_with("tsr_") && name.ends_with(".log")) files.push_back(root_ + kScratch + "/" + name);
  }
  return files;
}

void CacheStore::forget_failures() const {
  for (const std::string& file : failure_files()) remove_all(file);
}

void CacheStore::forget_old_failures() const {
  const std::vector<std::string> files = failure_files();
  if (files.size() <= 2 * kMostFailures) return;
  std::vector<std::pair<int64_t, std::string>> by_age;
  for (const std::string& file : files) {
    const auto stamp = file_stamp(file);
    by_age.emplace_back(stamp ? stamp->modified_ns : 0, file);
  }
  std::sort(by_age.begin(), by_age.end());
  by_age.resize(by_age.size() - kMostFailures);  // the newest stay: not each failure is to sort all
  for (const auto& [age, file] : by_age) remove_all(file);
}

}  // namespace tessera
