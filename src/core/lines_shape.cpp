#include "core/lines_shape.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "core/tile_math.h"
#include "tessera/kernel_config.h"

namespace tessera {
namespace {

LinesAxis lines_axis(const WindowAxis& a) {
  const int64_t spread = std::abs(a.spread);
  // Where taps meet every step-th coordinate only, those between are left out.
  const int64_t every = a.taps <= 1 || spread % a.step == 0 ? a.step : 1;
  return {.positions = a.positions,
          .taps = a.taps,
          .first = a.shift + std::min<int64_t>(std::max<int64_t>(a.taps - 1, 0) * a.spread, 0),
          .every = every,
          .step = a.step / every,
          .spread = a.taps <= 1 ? 1 : spread / every,
          .size = a.size,
          .reversed = a.spread < 0};
}

}  // namespace

int64_t LinesAxis::blank() const { return first < 0 ? ceil_div(-first, every) : 0; }
int64_t LinesAxis::filled() const { return first < size ? ceil_div(size - first, every) : 0; }

bool LinesShape::as_one(int64_t lines) const {
  return ceil_div((lines - 1) * walked + x.positions, kLinesTileRows) <=
         lines * ceil_div(x.positions, kLinesTileRows);
}

int64_t LinesShape::tiles_of(int64_t lines) const {
  return as_one(lines) ? ceil_div((lines - 1) * walked + x.positions, kLinesTileRows)
                       : lines * ceil_div(x.positions, kLinesTileRows);
}

int64_t LinesShape::lines_read(int64_t lines) const {
  // Of each remainder by the step, those from the first position's to the last one's. Every so many taps
  // remainders come again: the last of each remainder are the last taps.
  const int64_t remainders = y.step / std::gcd(y.spread, y.step);
  int64_t sum = 0;
  for (int64_t t = std::max<int64_t>(y.taps - remainders, 0); t < y.taps; ++t)
    sum += lines + t * y.spread / y.step;
  return sum;
}

void LinesShape::cut(int64_t positions) {
  x.positions = positions;
  width = round_up(x.reach(), x.step);
  walked = width / x.step;
}

LinesShape lines_shape(const Window& w, int64_t group, int64_t step) {
  LinesShape s{};
  s.z = lines_axis(w.axes[0]);
  s.y = lines_axis(w.axes[1]);
  s.x = lines_axis(w.axes[2]);
  s.run = s.x.spread == 1 ? s.x.taps : 1;
  s.pixel = s.run * w.channels % group == 0 ? w.channels : round_up(w.channels, group);
  s.runs = w.taps() == 0 ? 0 : w.taps() / s.run;
  s.whole = s.run * s.pixel / step;
  s.tail = s.run * s.pixel % step;
  const int64_t reach = s.x.reach();
  s.width =
      std::max({std::min(reach, s.x.filled()), reach - s.x.blank(), (s.x.positions - 1) * s.x.step + 1});
  s.width = round_up(s.width, s.x.step);
  s.walked = s.width / s.x.step;
  return s;
}

bool reads_lines(const GemmView& v, const KernelConfig& c) {
  return c.family_id() == Family::cpu_amx && v.a.patches && !c.pack_a;
}

bool sums_lines(const GemmView& v, const KernelConfig& c) {
  return c.family_id() == Family::cpu_amx && v.b.patches && !c.pack_b;
}

GradientLines::GradientLines(const Window& w) : shape(lines_shape(w, 2, 32)) {
  for (int64_t t = 0; t < shape.x.taps; ++t) {
    if (std::find(remainder_later_.begin(), remainder_later_.end(), key(t)) == remainder_later_.end())
      remainder_later_.push_back(key(t));
  }
  copies = static_cast<int64_t>(remainder_later_.size());
}

int64_t GradientLines::key(int64_t tap) const {
  const int64_t at = tap * shape.x.spread;
  return at % shape.x.step * 2 + at / shape.x.step % 2;
}
int64_t GradientLines::copy_of(int64_t tap) const {
  return std::find(remainder_later_.begin(), remainder_later_.end(), key(tap)) - remainder_later_.begin();
}
int64_t GradientLines::words_before(int64_t tap) const { return tap * shape.x.spread / shape.x.step / 2; }
int64_t GradientLines::pitch() const { return round_up(shape.walked, 2); }
int64_t GradientLines::steps(int64_t lines) const {
  return ceil_div((lines - 1) * pitch() + shape.x.positions, 32);
}

bool lines_have_tails(const GemmView& v, int64_t group, int64_t step) {
  const std::vector<StridedPart> parts = strided_parts(v);
  return std::any_of(parts.begin(), parts.end(), [&](const StridedPart& part) {
    const LinesShape s = lines_shape(*part.view.window, group, step);
    return s.whole > 0 && s.tail > 0;
  });
}

}  // namespace tessera
