#include "runtime/pack.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/embedded.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "core/json_values.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr int kPackVersion = 2;
constexpr size_t kAlignment = 64;

struct Header {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t reserved;
  uint64_t index_length;
  uint64_t file_length;
  std::array<char, kContentHashLength> index_checksum;
};
static_assert(sizeof(Header) == kAlignment);
constexpr std::array<char, 8> kMagic = {'T', 'S', 'R', 'P', 'A', 'C', 'K', '\n'};

// Of all that units are made of: what of them a pack was made with.
const std::string& sources_hash() {
  static const auto& hash = *new std::string([] {  // for threads while the process ends
    std::vector<std::string_view> pieces;
    for (const EmbeddedFile& file : embedded_files()) {
      if (file.path.starts_with("kernels/")) pieces.insert(pieces.end(), {file.path, file.text});
    }
    return content_hash(join(pieces, "\n"));
  }());
  return hash;
}

size_t aligned(size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

// "standard-<arch>.pack" in a directory; the file itself otherwise.
std::string pack_in(const std::string& path, std::string_view arch) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return {};
  if (!S_ISDIR(st.st_mode)) return path;
  std::string file = path + "/standard-" + std::string(arch) + ".pack";
  return path_exists(file) ? file : std::string();
}

std::string real_directory(const char* file) {
  char* resolved = realpath(file, nullptr);
  if (!resolved) return {};
  std::string path = resolved;
  free(resolved);
  return path.substr(0, path.find_last_of('/'));
}

}  // namespace

std::string unit_key(const Source& source) {
  return content_hash({to_string(source.backend), source.arch, std::to_string(kKernelAbi),
                       join(source.flags, "\n"), source.symbol, source.unit});
}

Json to_json(const PackDecision& d) {
  return Json::object({{"arch", d.arch}, {"units", d.units}, {"problem", d.problem}, {"config", d.config}});
}

std::shared_ptr<const Pack> Pack::open(const std::string& path) {
  std::shared_ptr<Pack> pack(new Pack(path, MappedFile::open(path)));
  try {
    pack->read_index();
  } catch (const Error& e) {
    throw Error(ErrorCode::corrupt, "pack '" + path + "' is damaged: " + e.what_happened(),
                "build or copy it anew");
  }
  return pack;
}

void Pack::read_index() {
  auto require = [](bool good, const char* what) {
    if (!good) throw Error(ErrorCode::corrupt, what);
  };
  const std::string_view bytes = file_.bytes();
  Header header;
  require(bytes.size() >= sizeof(header), "shorter than a header");
  memcpy(&header, bytes.data(), sizeof(header));
  require(header.magic == kMagic, "not a pack");
  require(header.version == kPackVersion, "of another format version");
  require(header.file_length == bytes.size(), "its length is not the recorded one");
  require(header.index_length <= bytes.size() - sizeof(header), "its index is longer than the file");
  const std::string_view index = bytes.substr(sizeof(header), header.index_length);
  require(content_hash(index) == std::string_view(header.index_checksum.data(), header.index_checksum.size()),
          "its index does not match its checksum");

  const Json json = Json::parse(index, path_);
  if (const Json* sources = json.find("sources")) sources_ = sources->as_string();
  for (const Json& k : json.at("kernels").items()) {
    Record r{k.at("symbol").as_string(), k.at("arch").as_string(), k.at("checksum").as_string(),
             static_cast<size_t>(k.at("offset").as_int()), static_cast<size_t>(k.at("length").as_int())};
    require(r.offset <= bytes.size() && r.length <= bytes.size() - r.offset,
            "a kernel lies outside the file");
    kernels_.emplace(k.at("key").as_string(), std::move(r));
  }
  for (const Json& d : json.at("decisions").items()) {
    PackDecision decision{d.at("arch").as_string(), static_cast<int>(d.at("units").as_int()),
                          d.at("problem").as_string(), d.at("config").as_string()};
    std::tuple key(decision.arch, decision.units, decision.problem);
    decisions_.emplace(std::move(key), std::move(decision));
  }
}

bool Pack::of_this_build() const { return sources_ == sources_hash(); }

bool Pack::contains(std::string_view key) const { return kernels_.count(std::string(key)) > 0; }

std::optional<Binary> Pack::find(std::string_view key) const {
  auto found = kernels_.find(std::string(key));
  if (found == kernels_.end()) return std::nullopt;
  const std::string_view bytes = bytes_of(found->second);
  if (content_hash(bytes) != found->second.checksum) {
    warn_once(path_ + ' ' + found->first, "kernel " + found->second.symbol + " in pack '" + path_ +
                                              "' is damaged and ignored; build or copy the pack anew");
    return std::nullopt;
  }
  return Binary{found->second.symbol, std::string(bytes)};
}

const PackDecision* Pack::decision(std::string_view arch, int units, std::string_view problem) const {
  auto found = decisions_.find({std::string(arch), units, std::string(problem)});
  return found == decisions_.end() ? nullptr : &found->second;
}

std::vector<PackDecision> Pack::decisions() const {
  std::vector<PackDecision> all;
  for (const auto& [key, decision] : decisions_) all.push_back(decision);
  return all;
}

Json Pack::describe() const {
  std::set<std::string> archs;
  for (const auto& [key, record] : kernels_) archs.insert(record.arch);
  Json names = Json::array();
  for (const std::string& arch : archs) names.push(arch);
  return Json::object({{"path", path_},
                       {"bytes", static_cast<int64_t>(file_.bytes().size())},
                       {"archs", names},
                       {"kernels", static_cast<int64_t>(kernels_.size())},
                       {"decisions", static_cast<int64_t>(decisions_.size())},
                       {"of_this_build", of_this_build()}});
}

std::vector<std::string> Pack::damaged() const {
  std::vector<std::string> symbols;
  for (const auto& [key, record] : kernels_) {
    if (content_hash(bytes_of(record)) != record.checksum) symbols.push_back(record.symbol);
  }
  std::sort(symbols.begin(), symbols.end());
  return symbols;
}

Json Pack::check() const {
  return Json::object(
      {{"path", path_}, {"damaged", write_strings(damaged())}, {"of_this_build", of_this_build()}});
}

void PackWriter::add(const Source& source, const Binary& binary) {
  kernels_[unit_key(source)] = {binary.symbol, source.arch, binary.bytes};
}

void PackWriter::add(PackWriter&& other) {
  of_this_build_ = of_this_build_ && other.of_this_build_;
  for (auto& [key, k] : other.kernels_) kernels_[key] = std::move(k);
  for (const auto& [key, d] : other.decisions_) decide(d);
}

void PackWriter::add(const Pack& pack) {
  if (const auto damaged = pack.damaged(); !damaged.empty()) {
    throw Error(ErrorCode::corrupt, pack.path() + ": damaged: " + join(damaged, " "), "make the pack anew");
  }
  of_this_build_ = of_this_build_ && pack.of_this_build();
  for (const auto& [key, r] : pack.kernels_) {
    kernels_[key] = {r.symbol, r.arch, std::string(pack.bytes_of(r))};
  }
  for (const auto& [key, d] : pack.decisions_) decide(d);
}

void PackWriter::decide(const PackDecision& decision) {
  decisions_[{decision.arch, decision.units, decision.problem}] = decision;
}

void PackWriter::write(const std::string& path) const {
  // Offsets are counted from the end of the index first: its own length depends on how they print.
  auto index_text = [&](size_t base) {
    Json kernels = Json::array(), decisions = Json::array();
    size_t offset = base;
    for (const auto& [key, k] : kernels_) {
      kernels.push(Json::object({{"key", key},
                                 {"symbol", k.symbol},
                                 {"arch", k.arch},
                                 {"offset", static_cast<int64_t>(offset)},
                                 {"length", static_cast<int64_t>(k.bytes.size())},
                                 {"checksum", content_hash(k.bytes)}}));
      offset += aligned(k.bytes.size());
    }
    for (const auto& [key, d] : decisions_) decisions.push(to_json(d));
    return Json::object({{"sources", of_this_build_ ? sources_hash() : ""},
                         {"kernels", kernels},
                         {"decisions", decisions}})
        .dump();
  };
  size_t base = sizeof(Header);
  std::string index;
  for (;;) {
    index = index_text(base);
    const size_t needed = aligned(sizeof(Header) + index.size());
    if (needed <= base) break;
    base = needed;
  }
  std::string file(base, '\0');
  for (const auto& [key, k] : kernels_) {
    file += k.bytes;
    file.resize(aligned(file.size()), '\0');
  }
  Header header{kMagic, kPackVersion, 0, index.size(), file.size(), {}};
  const std::string checksum = content_hash(index);
  std::copy(checksum.begin(), checksum.end(), header.index_checksum.begin());
  memcpy(file.data(), &header, sizeof(header));
  memcpy(file.data() + sizeof(header), index.data(), index.size());
  write_file_whole(path, file);
}

std::vector<std::string> standard_pack_paths(std::string_view arch) {
  std::vector<std::string> paths;
  auto add = [&](std::string path) {
    if (!path.empty() && std::find(paths.begin(), paths.end(), path) == paths.end())
      paths.push_back(std::move(path));
  };
  const char* named = getenv("TESSERA_PACK_PATH");
  for (std::string_view piece : split(named ? named : "", ':')) {
    if (piece.empty()) continue;
    const std::string path(piece);
    if (!path_exists(path)) {
      warn_once("TESSERA_PACK_PATH " + path, "TESSERA_PACK_PATH names '" + path + "', which does not exist");
    }
    add(pack_in(path, arch));
  }
  Dl_info self{};
  std::vector<std::string> folders{real_directory("/proc/self/exe")};
  if (dladdr(reinterpret_cast<const void*>(&standard_pack_paths), &self) && self.dli_fname) {
    folders.insert(folders.begin(), real_directory(self.dli_fname));
  }
  for (const std::string& folder : folders) {
    if (!folder.empty()) add(pack_in(folder + "/../share/tessera", arch));
  }
  return paths;
}

}  // namespace tessera
