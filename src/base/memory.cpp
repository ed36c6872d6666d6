#include "base/memory.h"

#include <cstdio>
#include <cstring>
#include <limits>

namespace tessera {

int64_t available_memory() {
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  if (!file) return std::numeric_limits<int64_t>::max();
  int64_t total = 0;
  bool known = false;
  char line[128], name[32];
  for (long long kib; std::fgets(line, sizeof line, file);) {
    if (std::sscanf(line, "%31[^:]: %lld kB", name, &kib) != 2) continue;
    const bool available = std::strcmp(name, "MemAvailable") == 0;
    known |= available;
    if (available || std::strcmp(name, "SwapFree") == 0) total += static_cast<int64_t>(kib) * 1024;
  }
  std::fclose(file);
  return known ? total : std::numeric_limits<int64_t>::max();
}

}  // namespace tessera
