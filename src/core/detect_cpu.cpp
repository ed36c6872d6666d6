// Which architecture the running processor is: /proc/cpuinfo, the affinity mask and the cache sizes of Linux.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/cores.h"
#include "base/text.h"
#include "core/arch_spec.h"
#include "tessera/error.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#endif

namespace tessera {
namespace {

std::string read_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// A value of the first processor.
std::string cpuinfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon != line.npos && trim(std::string_view(line).substr(0, colon)) == key)
      return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return {};
}

// Linux hands out AMX tile data per process, on request.
bool amx_granted() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// "48K", "2048K", "105M"; 0 when it is not such a text.
int64_t size_bytes(std::string_view text) {
  constexpr std::string_view units = "KMG";
  int64_t scale = 1;
  if (!text.empty()) {
    if (size_t unit = units.find(text.back()); unit != units.npos) {
      scale = int64_t{1} << (10 * (unit + 1));
      text.remove_suffix(1);
    }
  }
  return parse_int(text).value_or(0) * scale;
}

void read_caches(ArchSpec& a) {
  for (int index = 0; index < 16; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string level = read_line(folder + "level"), type = read_line(folder + "type");
    const int64_t bytes = size_bytes(read_line(folder + "size"));
    if (bytes <= 0 || type == "Instruction") continue;
    CacheLevel* target = level == "1" ? &a.l1 : level == "2" ? &a.l2 : level == "3" ? &a.l3 : nullptr;
    // A virtual machine is told of its host's whole L3, of which it has a share.
    if (target) target->bytes = target == &a.l3 ? std::min(bytes, a.l3.bytes) : bytes;
  }
}

// The architecture that TESSERA_ARCH asks for: of any processor that has its features.
const ArchSpec& wanted_arch(std::string_view name, const Processor& here) {
  const ArchSpec& a = [&]() -> const ArchSpec& {
    try {
      return find_arch(name);
    } catch (const Error& e) { throw e.on("TESSERA_ARCH"); }
  }();
  const std::vector<std::string> missing = missing_features(a, here);
  if (a.backend == BackendKind::cpu && missing.empty()) return a;
  throw Error(ErrorCode::unsupported,
              "TESSERA_ARCH=" + a.name + ": this processor lacks " +
                  (a.backend == BackendKind::cpu ? join(missing, " ") : "all of it"),
              "unset TESSERA_ARCH");
}

bool describes(const Processors& those, const Processor& p) {
  return those.vendor.empty() ||
         (those.vendor == p.vendor &&
          std::find(those.families.begin(), those.families.end(), p.family) != those.families.end());
}

}  // namespace

std::vector<std::string> missing_features(const ArchSpec& a, const Processor& p) {
  std::vector<std::string> missing;
  for (const std::string& needed : a.features) {
    if (std::find(p.features.begin(), p.features.end(), needed) == p.features.end())
      missing.push_back(needed);
  }
  return missing;
}

const ArchSpec& best_cpu_arch(const Processor& p) {
  const ArchSpec* best = nullptr;
  for (const ArchSpec& a : all_archs()) {
    if (a.backend != BackendKind::cpu || (best && best->rank >= a.rank)) continue;
    if (describes(a.processors, p) && missing_features(a, p).empty()) best = &a;
  }
  if (best) return *best;
  const ArchSpec* least = nullptr;
  for (const ArchSpec& a : all_archs()) {
    if (a.backend == BackendKind::cpu && (!least || a.rank < least->rank)) least = &a;
  }
  throw Error(ErrorCode::unsupported, "this processor has the features of no known architecture",
              "the least one needs " + join(least->features, " ") + "; 'null:ARCH' plans without a device");
}

Processor this_processor() {
  Processor p;
  p.name = cpuinfo("model name");
  p.vendor = cpuinfo("vendor_id");
  p.family = static_cast<int>(parse_int(cpuinfo("cpu family")).value_or(0));
  const std::string flags = cpuinfo("flags");
  for (std::string_view f : split_words(flags)) p.features.emplace_back(f);
  if (!amx_granted()) std::erase_if(p.features, [](std::string_view f) { return f.starts_with("amx"); });
  return p;
}

ArchSpec detect_cpu() {
  const Processor here = this_processor();
  const char* wanted = std::getenv("TESSERA_ARCH");
  ArchSpec a = wanted && *wanted ? wanted_arch(wanted, here) : best_cpu_arch(here);
  a.compute_units = static_cast<int>(allowed_cores().size());
  read_caches(a);
  return a;
}

}  // namespace tessera
