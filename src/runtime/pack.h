// Packs: one file of prebuilt kernels and decisions, for machines with no compiler and for a fast first call.
//
//   64-byte header: magic, version, length of the index, of the file, checksum of the index
//   index: JSON {sources, kernels: [{key, symbol, arch, offset, length, checksum}], decisions: [...]}
//   the kernels' bytes, each at a multiple of 64
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/fs.h"
#include "core/artifact.h"
#include "tessera/json.h"

namespace tessera {

// The name of a unit wherever its binary is stored: its text, flags, architecture and the kernel ABI. Not the
// compiler, so a pack serves whatever compiler (or none) is there.
std::string unit_key(const Source& source);

// A config chosen for a problem (in text form) on so many cores or compute units of an architecture.
struct PackDecision {
  std::string arch;
  int units = 0;
  std::string problem, config;
  bool operator==(const PackDecision&) const = default;
};
Json to_json(const PackDecision& d);
using PackDecisions = std::map<std::tuple<std::string, int, std::string>, PackDecision>;  // by all but config

// What is said of a pack that is not of_this_build().
inline constexpr std::string_view kOfAnotherBuild =
    "made by another build: kernels whose source has changed since are compiled";

// Mapped, immutable, thread-safe.
class Pack {
 public:
  // Error(io) when the file cannot be read, Error(corrupt) when it is not a whole pack.
  static std::shared_ptr<const Pack> open(const std::string& path);

  const std::string& path() const { return path_; }
  size_t size() const { return kernels_.size(); }
  bool contains(std::string_view key) const;
  // Null when absent. Bytes that do not match their checksum count as absent, with one warning.
  std::optional<Binary> find(std::string_view key) const;
  const PackDecision* decision(std::string_view arch, int units, std::string_view problem) const;
  bool decides() const { return !decisions_.empty(); }
  std::vector<PackDecision> decisions() const;

  // Whether all of it was made of this build's sources of kernels; else those that have changed since are not
  // found.
  bool of_this_build() const;

  Json describe() const;                     // {path, bytes, archs, kernels, decisions, of_this_build}
  std::vector<std::string> damaged() const;  // symbols of kernels that do not match their checksums
  Json check() const;                        // {path, damaged, of_this_build}

 private:
  friend class PackWriter;
  struct Record {
    std::string symbol, arch, checksum;
    size_t offset = 0, length = 0;
  };
  Pack(std::string path, MappedFile file) : path_(std::move(path)), file_(std::move(file)) {}
  void read_index();
  std::string_view bytes_of(const Record& r) const { return file_.bytes().substr(r.offset, r.length); }

  std::string path_;
  MappedFile file_;
  std::unordered_map<std::string, Record> kernels_;  // by key
  PackDecisions decisions_;
  std::string sources_;  // a hash, "" where there are several
};

class PackWriter {
 public:
  void add(const Source& source, const Binary& binary);  // the same unit twice is one kernel
  void add(PackWriter&& other);
  // All that an earlier pack holds. Error(corrupt) where a kernel does not match its checksum.
  void add(const Pack& pack);
  void decide(const PackDecision& decision);  // the last one for a problem and number of units stays
  size_t size() const { return kernels_.size(); }
  // Readers of an older pack at `path` keep it; new ones see all of the new one. Error(io).
  void write(const std::string& path) const;

 private:
  struct Kernel {
    std::string symbol, arch, bytes;
  };
  std::map<std::string, Kernel> kernels_;
  PackDecisions decisions_;
  bool of_this_build_ = true;
};

// Where packs are looked for without being named: the files and directories of TESSERA_PACK_PATH
// (':'-separated), then
// ../share/tessera beside the library and beside the program. In a directory the file is
// standard-<arch>.pack. Only existing files; a piece of TESSERA_PACK_PATH that does not exist is warned about
// once.
std::vector<std::string> standard_pack_paths(std::string_view arch);

}  // namespace tessera
