#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>

#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr int kMaxCores = 1 << 20;

// A set that holds cores below `count`; null when there is no memory.
struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
std::unique_ptr<cpu_set_t, FreeSet> core_set(int count) {
  std::unique_ptr<cpu_set_t, FreeSet> set(CPU_ALLOC(count));
  if (set) CPU_ZERO_S(CPU_ALLOC_SIZE(count), set.get());
  return set;
}

[[noreturn]] void bad_list(std::string_view text) {
  throw Error(ErrorCode::bad_input, "'" + std::string(text) + "' is no list of cores",
              "write one like 0,2,4-7");
}

// Empty when the system does not tell.
std::vector<int> siblings(int core) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/thread_siblings_list");
  std::string line;
  if (!std::getline(file, line)) return {};
  try {
    return parse_cores(trim(line));
  } catch (const Error&) { return {}; }
}

}  // namespace

std::vector<int> allowed_cores() {
  // The kernel refuses a set that is smaller than its own.
  for (int count = 1024; count <= kMaxCores; count *= 2) {
    const auto set = core_set(count);
    const size_t bytes = CPU_ALLOC_SIZE(count);
    if (!set) break;
    if (sched_getaffinity(0, bytes, set.get()) != 0) continue;
    std::vector<int> cores;
    for (int i = 0; i < count; ++i) {
      if (CPU_ISSET_S(i, bytes, set.get())) cores.push_back(i);
    }
    if (!cores.empty()) return cores;
  }
  return {0};
}

std::vector<int> physical_cores() {
  std::vector<int> out;
  std::set<int> taken;
  for (int core : allowed_cores()) {
    if (taken.count(core)) continue;
    out.push_back(core);
    for (int mate : siblings(core)) taken.insert(mate);
  }
  return out;
}

std::vector<int> parse_cores(std::string_view text) {
  std::vector<int> out;
  for (std::string_view part : split(text, ',')) {
    const size_t dash = part.find('-');
    const auto first = parse_int(part.substr(0, dash));
    const auto last = dash == part.npos ? first : parse_int(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMaxCores) bad_list(text);
    for (int64_t i = *first; i <= *last; ++i) out.push_back(static_cast<int>(i));
  }
  return out;
}

std::string cores_text(const std::vector<int>& cores) {
  std::string out;
  for (size_t i = 0; i < cores.size();) {
    size_t end = i + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
    out += (i ? "," : "") + std::to_string(cores[i]);
    if (end - i > 1) out += "-" + std::to_string(cores[end - 1]);
    i = end;
  }
  return out;
}

void run_on_core(int core) {
  const auto set = core_set(core + 1);
  if (set) CPU_SET_S(static_cast<size_t>(core), CPU_ALLOC_SIZE(core + 1), set.get());
  if (!set || sched_setaffinity(0, CPU_ALLOC_SIZE(core + 1), set.get()) != 0)
    throw Error(ErrorCode::io, "cannot run on core " + std::to_string(core) + ": " + std::strerror(errno));
}

}  // namespace tessera
