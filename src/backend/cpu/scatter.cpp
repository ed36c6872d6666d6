#include "backend/cpu/scatter.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/arena.h"
#include "backend/cpu/deal_out.h"
#include "backend/cpu/pack.h"
#include "core/cache_line.h"
#include "core/scatter_shape.h"
#include "core/tile_math.h"
#include "cpu/scatter_abi.h"

namespace tessera {
namespace {

// Of the workspace, the products of one thread.
constexpr int64_t kMostProductBytes = int64_t{4} << 20;

class ScatterKernel : public CpuKernel {
 public:
  ScatterKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, const Problem& problem,
                const Choice& choice)
      : CpuKernel(std::move(module), arch, problem, choice),
        shape_(scatter_shape(view_)),
        axes_(view_.window->axes),
        pack_panel_(panel_packer(vector_bits_)) {
    spare_threads();
    const WindowAxis& outer = axes_[static_cast<size_t>(shape_.outer)];
    place_lines_ = shape_.coordinates / outer.size / axes_[2].size;
    steps_ = ceil_div(view_.window->channels, inst_.k);
    panel_bytes_ = steps_ * config_.tile_n * 4;
    panels_ = ceil_div(shape_.columns, config_.tile_n);
    product_bytes_ = odd_lines(shape_.product_bytes);
    parts_ = threads_ == 1 ? 1 : std::min(shape_.most_parts(), ceil_div(threads_, shape_.images));
    // Whole lines, or equal pieces of one: what is added before it meets a sum does not depend on the parts.
    const int64_t along = axes_[2].size, fit = kMostProductBytes / product_bytes_,
                  rows = std::max<int64_t>(std::min<int64_t>(config_.block_m, fit), config_.tile_m);
    lines_ = std::max<int64_t>(rows / along, 1);
    pieces_ = ceil_div(along, rows);
    const int64_t at_once = std::max<int64_t>(lines_ * ceil_div(along, pieces_), config_.tile_m);
    thread_bytes_ = thread_share(shape_.sums_bytes() + at_once * product_bytes_);
  }

  void run_unchecked(const Buffers& buffers) const override {
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    Run run{.buffers = buffers, .panels = space + busy_threads() * thread_bytes_, .epilogue = {}};
    set_epilogue(run.epilogue, buffers);
    if (view_.b_prepacked) {
      run.panels = static_cast<const char*>(buffers.b);
    } else if (run.epilogue.alpha != 0.0f) {  // otherwise A and B are not looked at
      pack_panels(buffers.b, view_.b.row_stride, space + busy_threads() * thread_bytes_);
    }
    deal_out(shape_.images * parts_, busy_threads(), [&](int64_t i, int thread) {
      const int64_t positions = axes_[static_cast<size_t>(shape_.outer)].positions, part = i % parts_;
      Part one{.image = i / parts_,
               .begin = positions * part / parts_,
               .end = positions * (part + 1) / parts_,
               .sums = reinterpret_cast<float*>(space + thread * thread_bytes_),
               .products = space + thread * thread_bytes_ + shape_.sums_bytes()};
      compute(run, one);
    });
  }

  size_t workspace_bytes() const override {
    const int64_t panels = view_.b_prepacked ? 0 : panels_ * panel_bytes_;
    return static_cast<size_t>(busy_threads() * thread_bytes_ + panels);
  }
  size_t panels_bytes() const override {
    return view_.b_prepacked ? static_cast<size_t>(panels_ * panel_bytes_) : 0;
  }
  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override {
    pack_panels(b, b_to_pack(ldb).row_stride, static_cast<char*>(packed));
  }

 private:
  struct Run {
    const Buffers& buffers;
    const char* panels;
    tsr::EpilogueArgs epilogue;
  };
  // Positions [begin, end) along the outer axis of an image.
  struct Part {
    int64_t image, begin, end;
    float* sums;  // planes of lines; the place p along the outer axis has plane p % planes
    char* products;
  };

  int busy_threads() const {
    constexpr int64_t kMost = int64_t{48} << 20;  // bytes of all threads
    const int64_t fit = std::max<int64_t>(kMost / thread_bytes_, 1);
    return static_cast<int>(std::min<int64_t>({threads_, fit, shape_.images * parts_}));
  }
  int64_t plane_floats() const { return shape_.plane_lines * shape_.line_floats; }

  // The filter as a matrix: channels x (taps, columns of C), all of a channel neighbours in memory.
  void pack_panels(const void* b, int64_t row_stride, char* panels) const {
    deal_out(panels_, busy_threads(), [&](int64_t i, int) {
      const int64_t n = i * config_.tile_n;
      const char* from = static_cast<const char*>(b) + n * bytes_of(view_.b.type);
      const PanelSource words{from, row_stride, 1, view_.b.type, inst_.k, false};
      const int live = static_cast<int>(std::min<int64_t>(config_.tile_n, shape_.columns - n));
      pack_panel_(words, {view_.window->channels, live, config_.tile_n, false}, panels + i * panel_bytes_);
    });
  }

  void compute(const Run& run, const Part& part) const {
    std::memset(part.sums, 0, static_cast<size_t>(shape_.sums_bytes()));
    const WindowAxis& outer = axes_[static_cast<size_t>(shape_.outer)];
    const int64_t along = axes_[2].size;
    int64_t done = part.begin;
    if (run.epilogue.alpha != 0.0f) {
      // Places along the outer axis whose coordinates meet a position of this part.
      const int64_t first =
          ceil_div(std::max<int64_t>(part.begin + outer.shift - (shape_.planes - 1), 0), outer.divide);
      const int64_t last = std::min(outer.size, (part.end - 1 + outer.shift) / outer.divide + 1);
      for (int64_t line = first * place_lines_; line < last * place_lines_; line += lines_) {
        const int64_t lines = std::min(lines_, last * place_lines_ - line);
        for (int64_t i = 0; i < pieces_; ++i) {
          const int64_t begin = along * i / pieces_, count = along * (i + 1) / pieces_ - begin;
          const char* products = multiply(run, part, line * along + begin, lines > 1 ? lines * along : count);
          for (int64_t j = line; j < line + lines; ++j, products += along * product_bytes_) {
            if (j % place_lines_ == 0 && i == 0)
              finish(run, part, done, j / place_lines_ * outer.divide - outer.shift);
            add(part, j, begin, count, products);
          }
        }
      }
    }
    finish(run, part, done, part.end);
  }

  // The products of `count` coordinates of an image from `from` on. Where they are fewer than a tile of rows
  // those before or behind them come along.
  const char* multiply(const Run& run, const Part& part, int64_t from, int64_t count) const {
    const int64_t size = bytes_of(view_.a.type), row_bytes = axes_[2].stride * size;
    const int64_t all = shape_.images * shape_.coordinates, wanted = part.image * shape_.coordinates + from,
                  rows = std::max<int64_t>(count, config_.tile_m), row = std::min(wanted, all - rows);
    tsr::ScatterArgs args{};
    args.phase = tsr::ScatterPhase::products;
    args.a = static_cast<const char*>(run.buffers.a) + row * row_bytes;
    args.a_row_bytes = row_bytes;
    args.steps = steps_;
    args.panels = run.panels;
    args.panel_bytes = panel_bytes_;
    args.columns = shape_.columns;
    args.products = part.products;
    args.product_bytes = product_bytes_;
    args.count = rows;
    entry_(&args);
    return part.products + (wanted - row) * product_bytes_;
  }

  // Products of `count` coordinates of a line, from the `at`-th on, to the lines of sums that they meet.
  void add(const Part& part, int64_t coordinates, int64_t at, int64_t count, const char* products) const {
    const int64_t q[2] = {coordinates / axes_[1].size, coordinates % axes_[1].size};
    const int64_t inner = shape_.outer == 0 ? 1 : 0;  // of the first two axes, the one that is not the outer
    const WindowAxis &outer = axes_[static_cast<size_t>(shape_.outer)],
                     &other = axes_[static_cast<size_t>(inner)], &last = axes_[2];
    const int64_t pieces = shape_.columns / (outer.taps * other.taps) / shape_.run;
    tsr::ScatterRun runs[kRuns];
    tsr::ScatterArgs args{};
    args.phase = tsr::ScatterPhase::add;
    args.products = const_cast<char*>(products);
    args.product_bytes = product_bytes_;
    args.count = count;
    args.runs = runs;
    for (int64_t i = 0; i < outer.taps; ++i) {
      const int64_t p = q[shape_.outer] * outer.divide - outer.shift - i * outer.spread;
      if (p < part.begin || p >= part.end) continue;
      for (int64_t j = 0; j < other.taps; ++j) {
        const int64_t line = shape_.outer == 0 ? q[1] * other.divide - other.shift - j * other.spread : 0;
        if (line < 0 || line >= shape_.plane_lines) continue;
        const int64_t tap = (i * other.taps + j) * pieces;
        float* to =
            part.sums + p % shape_.planes * plane_floats() + line * shape_.line_floats + at * shape_.advance;
        for (int64_t t = 0; t < pieces; ++t) {
          runs[args.run_count++] = {(tap + t) * shape_.run, to - t * last.spread * view_.n};
          if (args.run_count < kRuns) continue;
          entry_(&args);
          args.run_count = 0;
        }
      }
    }
    if (args.run_count > 0) entry_(&args);
  }

  // Positions [done, end) of the outer axis, which no further coordinate meets, to C.
  void finish(const Run& run, const Part& part, int64_t& done, int64_t end) const {
    end = std::min(end, part.end);
    const WindowAxis& last = axes_[2];
    tsr::ScatterArgs args{};
    args.phase = tsr::ScatterPhase::results;
    args.count = last.positions;
    args.cols = view_.n;
    args.flat = shape_.flat;
    args.epilogue = run.epilogue;
    const int64_t image_lines = view_.window->positions() / last.positions;
    for (; done < end; ++done) {
      float* plane = part.sums + done % shape_.planes * plane_floats();
      for (int64_t i = 0; i < shape_.plane_lines; ++i) {
        args.line = plane + i * shape_.line_floats + shape_.lead * view_.n;
        args.row = (part.image * image_lines + done * shape_.plane_lines + i) * last.positions;
        entry_(&args);
      }
      std::memset(plane, 0, static_cast<size_t>(plane_floats() * 4));
    }
  }

  static constexpr int kRuns = 64;  // added at a time

  ScatterShape shape_;
  std::array<WindowAxis, ConvShape::kAxes> axes_;
  PackPanel pack_panel_;
  int64_t place_lines_ = 0;  // lines of coordinates of one place along the outer axis
  int64_t steps_ = 0, panel_bytes_ = 0, panels_ = 0, product_bytes_ = 0;
  int64_t parts_ = 1;               // of an image
  int64_t lines_ = 1, pieces_ = 1;  // lines multiplied at a time, or pieces of a line
  int64_t thread_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_scatter_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                            const Problem& problem, const Choice& choice) {
  return std::make_unique<ScatterKernel>(std::move(module), arch, problem, choice);
}

}  // namespace tessera
