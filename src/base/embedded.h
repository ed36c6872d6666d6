// Files compiled into the library: arch/, space/, kernels/, sets/, models/ and suites/ of the source tree, by
// relative path.
#pragma once

#include <span>
#include <string_view>

namespace tessera {

struct EmbeddedFile {
  std::string_view path;  // "arch/NAME.json"
  std::string_view text;
};

std::span<const EmbeddedFile> embedded_files();                 // ordered by path
const EmbeddedFile* find_embedded_file(std::string_view path);  // null when absent

}  // namespace tessera
