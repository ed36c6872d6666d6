// The kernel cache on disk. One directory per entry, which appears and vanishes whole:
//
//   aa/bb/<entry>/{kernel.so, meta.json}   <entry> = <unit key>.<compiler>; aa, bb its first digits; the
//   modification
//                                          time of meta.json is the time of last use
//   failed/<entry>.json                    what the compiler said of a unit it refused
//   locks/<entry>                          held while somebody builds the entry
//   scratch/                               temporary directories, logs of failed compiles
//   compilers/                             versions of compilers
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/artifact.h"
#include "tessera/error.h"
#include "tessera/json.h"

namespace tessera {

// What an entry records beside its bytes.
struct EntryMeta {
  std::string symbol, arch, compiler, checksum;
  int64_t length = 0;
  int abi = kKernelAbi;
};

class CacheStore {
 public:
  // `directory` may be missing. Nothing is touched here.
  explicit CacheStore(std::string directory, bool read_only)
      : root_(std::move(directory)), read_only_(read_only) {}

  const std::string& root() const { return root_; }

  // "" when the directory is missing or this user's alone; else why not, to be shown to the user.
  std::string why_unusable() const;

  // The entry's name; "" for `compiler` matches the build of any compiler in find().
  static std::string entry_name(const std::string& unit_key, std::string_view compiler);

  // The kernel, or nullopt. A damaged entry is deleted, warned about once and counts as absent.
  std::optional<Binary> find(const std::string& unit_key, std::string_view compiler, const Source& source);
  bool contains(const std::string& unit_key, std::string_view compiler) const;
  void discard(const std::string& unit_key, std::string_view compiler) const;  // quiet

  // Bytes added; 0 when another process had put the entry there. Error(io) when it cannot be written.
  int64_t publish(const std::string& entry, const Binary& binary, const Source& source,
                  std::string_view compiler);

  std::optional<Error> find_failure(const std::string& entry) const;
  void publish_failure(const std::string& entry, const Error& error, std::string_view compiler);  // Error(io)

  // An existing directory for temporary files and logs. Error(io).
  std::string scratch() const;
  // "" when a file of some size can be written there now; else why not.
  std::string why_unwritable() const;
  std::string lock_path(const std::string& entry) const;  // Error(io) when its directory cannot be made

  struct Entry {
    std::string name, path;
    int64_t bytes = 0;
    int64_t used_ns = 0;
  };
  std::vector<Entry> entries() const;  // in no particular order of use
  size_t failures() const;
  std::string why_damaged(const Entry& entry) const;  // "" when it is whole
  void remove(const Entry& entry) const;
  // Leftovers of processes that died, and locks nobody holds.
  void sweep() const;
  void forget_failures() const;  // and their logs

 private:
  std::string path_of(const std::string& entry) const;
  // Of this compiler; with none ("") of any.
  std::vector<std::string> builds_of(const std::string& unit_key, std::string_view compiler) const;
  std::vector<std::string> names_in(std::string_view part) const;  // of the directory; none without one
  std::vector<std::string> failure_files() const;                  // and logs
  void forget_old_failures() const;
  void discard_path(const std::string& path) const;

  std::string root_;
  bool read_only_;
};

}  // namespace tessera
