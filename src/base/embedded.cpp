#include "base/embedded.h"

#include <algorithm>

namespace tessera {

// Defined in the generated embedded_data.cpp.
extern const EmbeddedFile kEmbeddedFiles[];
extern const size_t kEmbeddedFileCount;

std::span<const EmbeddedFile> embedded_files() { return {kEmbeddedFiles, kEmbeddedFileCount}; }

const EmbeddedFile* find_embedded_file(std::string_view path) {
  auto files = embedded_files();
  auto found = std::lower_bound(files.begin(), files.end(), path,
                                [](const EmbeddedFile& f, std::string_view p) { return f.path < p; });
  return found != files.end() && found->path == path ? &*found : nullptr;
}

}  // namespace tessera
