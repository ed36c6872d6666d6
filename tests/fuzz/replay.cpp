// Runs a fuzz target over every file of the given folders: the corpus as a regression test, without
// libFuzzer. Each input is also run cut short at every eighth of its length.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz_target.h"

int main(int argc, char** argv) {
  int inputs = 0;
  for (int i = 1; i < argc; ++i) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& path : files) {
      std::ifstream file(path, std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      for (size_t part = 1; part <= 8; ++part) {
        // A copy of the exact length lets AddressSanitizer see a read past the end.
        const std::vector<uint8_t> bytes(text.begin(),
                                         text.begin() + static_cast<std::ptrdiff_t>(text.size() * part / 8));
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
        ++inputs;
      }
    }
  }
  std::printf("%d inputs\n", inputs);
  return inputs == 0;
}
