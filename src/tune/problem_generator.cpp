#include "tune/problem_generator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>

#include "base/text.h"
#include "core/gemm_view.h"
#include "tessera/error.h"

namespace tessera {
namespace {

// Draws by division of the generator's own numbers: those of <random>'s distributions differ between
// libraries.
class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed) {}
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[static_cast<size_t>(unit() * static_cast<double>(all.size()))];
  }

 private:
  std::mt19937_64 engine_;
};

int64_t wide_extent(Draw& draw) { return std::llround(std::exp2(draw.unit() * 13)); }

int64_t edge_extent(Draw& draw) {
  static const std::vector<int64_t> kTiles = {4,  6,   8,   16,  24,  32,   48,  64,
                                              96, 128, 256, 384, 512, 1024, 2048};
  static const std::vector<int64_t> kBeside = {-1, 0, 1};
  static const std::vector<int64_t> kOdd = {1, 2, 3, 5, 7, 11, 13, 17, 31, 61, 127, 257, 509, 1021, 2039};
  if (draw.unit() < 0.4) return draw.one_of(kOdd);
  return draw.one_of(kTiles) + draw.one_of(kBeside);
}

struct Kind {
  std::string_view name;
  int64_t (*extent)(Draw&);
};
constexpr std::array<Kind, 2> kKinds = {{{"wide", wide_extent}, {"edges", edge_extent}}};

}  // namespace

std::vector<SuiteRow> generate_problems(std::string_view spec, const GeneratorOptions& o) {
  const auto parts = split(spec, ':');
  const int64_t count = parts.size() == 2 ? parse_int(parts[1]).value_or(0) : 0;
  const auto kind =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return k.name == parts[0]; });
  if (kind == kKinds.end() || count < 1 || count > 1000000) {
    throw Error(ErrorCode::bad_input, "unknown generator '" + std::string(spec) + "'",
                "one of wide:COUNT edges:COUNT");
  }
  Draw draw(o.seed);
  std::vector<SuiteRow> rows;
  std::set<std::string> seen;
  // Small limits leave few different problems: then fewer come out.
  for (int64_t tries = 0; std::ssize(rows) < count && tries < count * 100; ++tries) {
    std::string text = "gemm m=" + std::to_string(kind->extent(draw));
    text += " n=" + std::to_string(kind->extent(draw)) + " k=" + std::to_string(kind->extent(draw));
    text += " dtype=" + draw.one_of(o.dtypes) + " layout=" + draw.one_of(o.layouts);
    if (!o.extra.empty()) text += ' ' + o.extra;
    const Problem p = Problem::parse(text);
    const GemmView v = lower(p);
    if (v.flops() > o.max_flops || v.bytes() > o.max_bytes || !seen.insert(to_string(p)).second) continue;
    rows.push_back({std::string(kind->name) + "." + std::to_string(rows.size()), p});
  }
  return rows;
}

}  // namespace tessera
