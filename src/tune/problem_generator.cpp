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

template <int64_t (*extent)(Draw&)>
std::string gemm(Draw& draw) {
  std::string text = "gemm m=" + std::to_string(extent(draw));
  return text + " n=" + std::to_string(extent(draw)) + " k=" + std::to_string(extent(draw));
}

// Evenly on a logarithmic scale between powers of two, then to a multiple of one of `units`.
int64_t round_extent(Draw& draw, double from, double to, const std::vector<int64_t>& units) {
  const double drawn = std::exp2(from + draw.unit() * (to - from));
  const int64_t unit = draw.one_of(units);
  return std::max<int64_t>(std::llround(drawn / static_cast<double>(unit)), 1) * unit;
}

// A linear layer of so many tokens, forward or the gradient of its weights.
std::string linear(Draw& draw) {
  static const std::vector<int64_t> kWidths = {1, 8, 16, 64, 64, 128, 128, 256}, kTokens = {1, 1, 8, 64, 128},
                                    kSides = {0, 0, 0, 1, 2};
  const int64_t tokens = round_extent(draw, 0, 15, kTokens), in = round_extent(draw, 5, 14.5, kWidths),
                out = round_extent(draw, 5, 14.5, kWidths);
  const std::array<std::array<int64_t, 3>, 3> sides = {
      {{tokens, out, in}, {out, in, tokens}, {out, tokens, in}}};
  const auto [m, n, k] = sides[static_cast<size_t>(draw.one_of(kSides))];
  return "gemm m=" + std::to_string(m) + " n=" + std::to_string(n) + " k=" + std::to_string(k);
}

// Evenly on a logarithmic scale, mostly in the steps that networks take.
int64_t channels(Draw& draw, double most) {
  static const std::vector<int64_t> kSteps = {1, 1, 2, 4, 8, 16, 16, 32, 64};
  const int64_t step = draw.one_of(kSteps);
  return std::max(std::llround(std::exp2(draw.unit() * std::log2(most)) / double(step)), 1LL) * step;
}

// One axis after the other, the innermost last.
struct AxisTexts {
  std::string in, filter, stride, pad, dilation;

  void add(int64_t size, int64_t taps, int64_t step, bool padded, int64_t apart) {
    const int64_t border = padded ? taps / 2 * apart : 0;
    const int64_t least = (taps - 1) * apart + 1 - 2 * border;
    const char* x = in.empty() ? "" : "x";
    in += x + std::to_string(std::max(size, least));
    filter += x + std::to_string(taps);
    stride += x + std::to_string(step);
    pad += x + std::to_string(border);
    dilation += x + std::to_string(apart);
  }
};

// A layer of some network: dense, of one tap, depthwise, in groups, with several outputs for each channel, or
// of few channels.
std::string layer(Draw& draw) {
  static const std::vector<int64_t> kTaps = {1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 5, 7, 11},
                                    kGroups = {2, 2, 3, 4, 8, 16, 32, 64}, kSteps = {1, 1, 1, 1, 2, 2, 3},
                                    kDepths = {2, 4, 5, 8, 13, 16}, kOutputs = {2, 3, 4, 8, 9, 16},
                                    kImages = {1, 1, 1, 2, 4, 8, 16, 32};
  constexpr double kDense = 0.3, kPoint = 0.5, kDepthwise = 0.68, kGrouped = 0.85, kMultiplied = 0.9;
  const double kind = draw.unit();
  int64_t g = 1, c = 1, k = 1, taps = draw.one_of(kTaps);
  if (kind < kPoint) {
    const double most = kind < kDense ? 768 : 2048;
    c = channels(draw, most);
    k = channels(draw, most);
    if (kind >= kDense) taps = 1;
  } else if (kind < kDepthwise) {
    g = channels(draw, 1500);
  } else if (kind < kGrouped) {
    g = draw.one_of(kGroups);
    c = channels(draw, 128);
    k = channels(draw, 128);
  } else if (kind < kMultiplied) {
    g = channels(draw, 128);
    k = draw.one_of(kOutputs);
  } else {
    c = channels(draw, 8);
    k = channels(draw, 128);
  }
  const int64_t step = draw.one_of(kSteps), apart = step == 1 && draw.unit() < 0.06 ? 2 : 1;
  const bool padded = draw.unit() < 0.85;
  AxisTexts axes;
  if (draw.unit() < 0.2) {
    const int64_t depth = draw.one_of(kDepths);
    axes.add(depth, taps > 1 && draw.unit() < 0.7 ? 3 : 1, 1, padded, 1);
  }
  const double map = std::exp2(2 + draw.unit() * 5), tall = std::exp2(draw.unit() - 0.5);
  const bool line = draw.unit() < 0.06;
  axes.add(line ? 1 : std::llround(map * tall), line ? 1 : taps, line ? 1 : step, padded, apart);
  axes.add(std::llround(line ? map * 4 : map / tall), taps, step, padded, apart);
  return " n=" + std::to_string(draw.one_of(kImages)) + " g=" + std::to_string(g) +
         " c=" + std::to_string(c) + " k=" + std::to_string(k) + " in=" + axes.in + " filter=" + axes.filter +
         " stride=" + axes.stride + " pad=" + axes.pad + " dilation=" + axes.dilation;
}

template <Op op>
std::string convolution(Draw& draw) {
  return std::string(to_string(op)) + layer(draw);
}

struct Kind {
  std::string_view name;
  std::string (*sizes)(Draw&);
  bool layouts;  // whether problems have one
};
constexpr Kind kKinds[] = {{"wide", gemm<wide_extent>, true},
                           {"edges", gemm<edge_extent>, true},
                           {"linear", linear, true},
                           {"conv_fwd", convolution<Op::conv_fwd>, false},
                           {"conv_bwd_data", convolution<Op::conv_bwd_data>, false},
                           {"conv_bwd_weight", convolution<Op::conv_bwd_weight>, false}};

}  // namespace

std::vector<SuiteRow> generate_problems(std::string_view spec, const GeneratorOptions& o) {
  const auto parts = split(spec, ':');
  const int64_t count = parts.size() == 2 ? parse_int(parts[1]).value_or(0) : 0;
  const auto kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.name == parts[0]; });
  constexpr int64_t kMost = 1'000'000;
  if (kind != std::end(kKinds) && parts.size() == 2 && (count < 1 || count > kMost)) {
    throw Error(ErrorCode::bad_input, "'" + std::string(spec) + "': COUNT is 1 to " + std::to_string(kMost));
  }
  if (kind == std::end(kKinds) || parts.size() != 2) {
    std::string known = "one of";
    for (const Kind& k : kKinds) known += " " + std::string(k.name) + ":COUNT";
    throw Error(ErrorCode::bad_input, "unknown generator '" + std::string(spec) + "'", known);
  }
  Draw draw(o.seed);
  std::vector<SuiteRow> rows;
  std::set<std::string> seen;
  // Small limits leave few different problems: then fewer come out.
  for (int64_t tries = 0; std::ssize(rows) < count && tries < count * 100; ++tries) {
    std::string text = kind->sizes(draw);
    text += " dtype=" + draw.one_of(o.dtypes);
    if (kind->layouts) text += " layout=" + draw.one_of(o.layouts);
    if (!o.extra.empty()) text += ' ' + o.extra;
    const Problem p = Problem::parse(text);
    const GemmView v = lower(p);
    if (v.flops() > o.max_flops || v.bytes() > o.max_bytes || !seen.insert(to_string(p)).second) continue;
    rows.push_back({std::string(kind->name) + "." + std::to_string(rows.size()), p});
  }
  return rows;
}

}  // namespace tessera
