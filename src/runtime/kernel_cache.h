// The kernel cache: a content-addressed directory per compiled unit, shared by threads and processes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/artifact.h"
#include "tessera/json.h"

namespace tessera {

struct CacheResult {
  Binary binary;
  enum class From : int { disk, pack, compiled } from = From::compiled;
  double ms = 0;  // spent getting it
};

class Pack;

class KernelCache {
 public:
  struct Options {
    std::string directory;  // "": TESSERA_CACHE_DIR, else $XDG_CACHE_HOME/tessera, else ~/.cache/tessera
    int64_t max_bytes = int64_t{1} << 30;  // least recently used entries go first
    std::vector<std::string> packs =
        {};                      // looked in before compiling, in order; the standard pack is always last
    bool standard_packs = true;  // false: `packs` alone
    bool read_only = false;
  };
  explicit KernelCache(Options options);
  ~KernelCache();

  // Single flight per key across threads and processes. A bad entry is a miss: deleted, warned about once.
  // Failures to write are warned about once and cost only the caching. Error(compile_failed) is remembered
  // per unit, compiler and the compiler's file, and thrown again without compiling until the entry is
  // cleared.
  CacheResult get_or_build(const Source& source, const Backend& backend);

  // For a kernel that was whole and did not load: as get_or_build, but what the directory holds is dropped
  // and packs are not looked in.
  CacheResult build_anew(const Source& source, const Backend& backend);
  void discard(const Source& source, const Backend& backend);  // from the directory; quiet

  // Whether get_or_build would need the compiler.
  bool contains(const Source& source, const Backend& backend) const;

  // "" when entries can be stored, else why not. Removes what dead processes left in the directory.
  std::string why_unwritable();

  const std::string& directory() const;
  std::span<const std::shared_ptr<const Pack>> packs() const;  // those of the options
  Json stats() const;                                          // entries, bytes, failures, directory, limit
  Json verify(bool repair);         // every entry against its recorded length and checksum
  Json collect(int64_t max_bytes);  // gc
  int64_t clear();                  // entries removed

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
