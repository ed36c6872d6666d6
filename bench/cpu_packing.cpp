#include "cpu_packing.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "backend/cpu/pack.h"
#include "core/arch_spec.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"
#include "tune/guarded_buffer.h"
#include "tune/measure.h"
#include "tune/operands.h"

using namespace tessera;

namespace {

struct Case {
  const char* name;
  DType type;
};
constexpr Case kCases[] = {{"f32", DType::f32}, {"bf16", DType::bf16}, {"i8", DType::i8}};
constexpr double kBudgetMs = 200;

// Elements of k in a word, of the instruction of vectors that takes most of them.
int group_of(const Case& c, const ArchSpec& arch) {
  int group = 1;
  for (const Instruction& i : arch.instructions) {
    if (i.m == 1 && i.a == c.type && i.b == c.type) group = std::max(group, i.k);
  }
  return group;
}

// Microseconds of each, timed in turn.
struct Pair {
  double packing, memcpy;
};
Pair time_pair(const Repeated& packing, const Repeated& copying) {
  const Repeated work[] = {packing, copying};
  const std::vector<Timing> t = measure(work, {.budget_ms = kBudgetMs});
  return {t[0].median_us, t[1].median_us};
}

// All of B, once, as `prepack=b` asks for it.
Pair whole(const Case& c) {
  const Problem p = Problem::parse("gemm m=256 n=2048 k=2048 prepack=b dtype=" + std::string(c.name));
  DispatcherOptions options;
  options.threads = 1;
  options.background = false;
  Dispatcher dispatcher(options);
  const Kernel& kernel = dispatcher.get(p);
  Operands operands(p, FillKind::uniform, 1, Operands::kTimingAlign);
  void* const packed = const_cast<void*>(operands.bind(kernel).b);
  const auto bytes = static_cast<size_t>(p.n * p.k * bytes_of(p.b));
  return time_pair(
      [&](int repeats) {
        for (int i = 0; i < repeats; ++i) kernel.pack_b(operands.b(), packed);
      },
      [&](int repeats) {
        for (int i = 0; i < repeats; ++i) std::memcpy(packed, operands.b(), bytes);
      });
}

// 64 columns after 64 columns into one panel.
constexpr int64_t kLines = 1024, kBlockBytes = int64_t{4} << 20, kWidth = 64;

Pair blocks(const Case& c) {
  const int64_t k = kLines, column = k * bytes_of(c.type), n = kBlockBytes / column;
  const ArchSpec arch = detect_cpu();
  const int group = group_of(c, arch);
  const PanelShape shape{k, kWidth, kWidth, group == 4};  // with the sums that a signed A asks for
  GuardedBuffer b(static_cast<size_t>(kBlockBytes), 4096), panel(panel_bytes(shape, group), 4096);
  std::memset(b.data(), 1, static_cast<size_t>(kBlockBytes));
  const PackPanel pack = panel_packer(arch.vector_bits);
  const auto* from = static_cast<const char*>(b.data());
  return time_pair(
      [&](int repeats) {
        for (int i = 0; i < repeats; ++i) {
          for (int64_t j = 0; j < n; j += kWidth)
            pack({from + j * column, 1, k, c.type, group, false}, shape, panel.data());
        }
      },
      [&](int repeats) {
        for (int i = 0; i < repeats; ++i) {
          for (int64_t j = 0; j < n; j += kWidth)
            std::memcpy(panel.data(), from + j * column, static_cast<size_t>(kWidth * column));
        }
      });
}

}  // namespace

Json measure_packing() {
  struct Way {
    const char *name, *doc;
    Pair (*run)(const Case&);
    double (*bytes)(const Case&);
  };
  const Way ways[] = {{"whole", "2048 x 2048 ahead of time", whole,
                       [](const Case& c) { return 2048.0 * 2048.0 * bytes_of(c.type); }},
                      {"blocks", "4 MiB a panel at a time, into L2", blocks,
                       [](const Case&) { return static_cast<double>(kBlockBytes); }}};
  Json out = Json::array();
  for (const Way& way : ways) {
    for (const Case& c : kCases) {
      try {
        const double bytes = way.bytes(c);
        const Pair us = way.run(c);
        std::printf("  packing %-5s %-32s %6.1f GB/s of B read, as much written; memcpy %6.1f\n", c.name,
                    way.doc, bytes / us.packing / 1e3, bytes / us.memcpy / 1e3);
        out.push(Json::object({{"dtype", c.name},
                               {"way", way.name},
                               {"bytes", bytes},
                               {"us", us.packing},
                               {"read_gb_s", bytes / us.packing / 1e3},
                               {"memcpy_gb_s", bytes / us.memcpy / 1e3}}));
      } catch (const Error& e) { std::printf("  packing %s: %s\n", c.name, e.what()); }
    }
  }
  return out;
}
