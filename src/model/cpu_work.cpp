#include "model/cpu_work.h"

#include <algorithm>
#include <cmath>

#include "core/lines_shape.h"
#include "core/packed_shape.h"
#include "core/tile_math.h"
#include "cpu/direct_stages.h"
#include "model/cpu_terms.h"
#include "model/view_memo.h"

namespace tessera {
namespace {

struct Cpu : CpuTerms {
  const Operand& left = c.swap_ab ? v.b : v.a;   // supplies rows of C as the kernel sees it
  const Operand& right = c.swap_ab ? v.a : v.b;  // supplies columns
  const CpuFacts& f = memo.cpu;

  const CpuFacts::Side& side(const Operand& o) const { return &o == &left ? f.left : f.right; }
  // Bytes of an operand in the words that instructions take.
  double word_bytes(double elements) const { return elements * 4.0 / f.group; }

  bool converts(const Operand& o) const {
    return inst.k == 1 ? o.type != DType::f32 : compute_type(o.type, inst) != o.type || inst.name == "madd16";
  }

  // Fills memo.cpu, from a `w` that has its shape.
  void find_facts() const {
    CpuFacts& to = memo.cpu;
    to.inst = &inst;
    to.swapped = c.swap_ab;
    to.issue_per_cycle = t.issue_share * inst.flops_per_cycle / (2.0 * inst.n * inst.k);
    to.lanes = a.vector_bits / 32.0;
    to.halves = a.issues_halves(inst);
    to.group = inst.m > 1 ? k_group(compute_type(left.type, inst)) : inst.k;
    const auto fill = [&](CpuFacts::Side& s, const Operand& o, double elements, bool turned_along_k) {
      s.converts = converts(o);
      s.along_k = &o == &v.a ? o.col_stride == 1 : o.row_stride == 1;
      s.size = bytes_of(o.type);
      s.copied = copy(o, elements, s.along_k == turned_along_k);
      s.gathered = gather(o, elements);
    };
    fill(to.left, left, w.rows * w.depth, false);
    fill(to.right, right, w.cols * w.depth, true);
    to.far_at_hand = far_rows(kPagesAtHand);
    to.far_known = far_rows(kPagesKnown);
    to.paged = to.left.along_k && left.leading() * bytes_of(left.type) % kPageBytes == 0;
    to.pages_of_rows = pages_of_rows(w.depth);
    to.read_a = read(w.bytes_a, w.bytes_a);
    to.read_b = read(w.bytes_b, w.bytes_b);
    to.read_c = read(w.bytes_c, w.bytes_c);
    const double words = word_bytes(w.cols * w.depth);
    to.read_words_b = read(words, words);
  }

  // Copying `elements` of an operand that k runs across (or along, `turned`) into words: the slower of the
  // shuffles and of reading it from where it lives.
  double copy(const Operand& o, double elements, bool turned) const {
    const double bytes = word_bytes(elements);
    const double cycles =
        bytes * (turned ? t.pack_transpose : t.pack_copy) + (side(o).converts ? bytes * t.pack_convert : 0);
    const double memory = elements * side(o).size;
    return cycles + read(memory, memory);
  }

  // What gathering `elements` of patches costs beyond copying them. Taps that are neighbours in memory are
  // one piece; a pixel whose other channels belong to other groups is one line of memory, or a part of one.
  double gather(const Operand& o, double elements) const {
    if (!o.patches) return 0;
    const WindowAxis& x = v.window->axes[2];
    const bool run = x.spread == 1 && x.stride == v.window->channels;
    const double pieces = elements / static_cast<double>(v.window->channels * (run ? x.taps : 1));
    return pieces * t.gather_piece + shared_lines(o, pieces);
  }

  // Lines of memory that other groups share, for so many pieces of the patches of one group.
  double shared_lines(const Operand& o, double pieces) const {
    const double pixel = static_cast<double>(v.window->axes[2].stride * bytes_of(o.type));
    return v.groups > 1 ? pieces * std::min(pixel / kCacheLine, 1.0) * t.gather_line : 0.0;
  }

  // Whether cpu_packed reads patches where they lie.
  bool taps_in_place() const { return c.family_id() == Family::cpu_packed && !c.pack_a && v.a.patches; }

  // Register tiles over the whole of C, `step(rows, cols)` giving cycles per k step of a tile with that many
  // live rows and columns.
  template <class Step>
  double over_tiles(Step step) const {
    const double full_m = std::floor(w.rows / w.tile_m), full_n = std::floor(w.cols / w.tile_n);
    const double rest_m = w.rows - full_m * w.tile_m, rest_n = w.cols - full_n * w.tile_n;
    double cycles = full_m * full_n * step(w.tile_m, w.tile_n);
    if (rest_m > 0) cycles += full_n * step(rest_m, w.tile_n);
    if (rest_n > 0) cycles += full_m * step(w.tile_m, rest_n);
    if (rest_m > 0 && rest_n > 0) cycles += step(rest_m, rest_n);
    return cycles;
  }

  // Operands read in place: so many lines advance side by side, which costs bandwidth beyond a few.
  double stream(double read_alone, double lines) const { return read_alone * (1 + t.stream_penalty * lines); }

  // Cycles of a step of k of a register tile with so many live rows and columns, a vector along its columns.
  double tile_step(double rows, double cols) const {
    const double vectors = std::ceil(cols / inst.n);
    return step_cycles(rows * vectors, rows + vectors, issue_per_cycle(), t);
  }

  // The same of cpu_packed.
  double packed_step(double rows, double cols) const {
    // Where each row has an address of its own, few of them stay in registers.
    constexpr double kAddresses = 10;
    return product_step(rows, cols, taps_in_place() && rows > kAddresses ? rows : 0.0);
  }

  // Row tiles as the packed kernel cuts them: tall ones and ones a row lower, all as one where columns are
  // few.
  double packed_math() const {
    const double low = w.tile_m > 1 ? std::min(w.row_tiles * w.tile_m - w.rows, w.row_tiles) : 0.0;
    const double edge = c.edge_dot ? static_cast<double>(edge_columns(v, c)) : 0.0, cols = w.cols - edge;
    const double full_n = std::floor(cols / w.tile_n), rest_n = cols - full_n * w.tile_n;
    double cycles = full_n * ((w.row_tiles - low) * packed_step(w.tile_m, w.tile_n) +
                              low * packed_step(w.tile_m - 1, w.tile_n));
    if (rest_n > 0) cycles += w.row_tiles * packed_step(w.tile_m, rest_n);
    return std::ceil(w.depth / inst.k) * cycles + edge_math(edge);
  }

  // So many columns as dot products along k, a few rows at a time.
  double edge_math(double edge) const {
    constexpr double kRows = 6;
    const double step = step_cycles(kRows * edge, kRows + edge, issue_per_cycle(), t) / kRows;
    return w.rows * (std::ceil(w.depth / inst.n) * step + edge * t.reduce_per_acc * inst.n);
  }

  // Pages that stay in the first-level TLB beside what else is read, and in all of it: enough where lines are
  // asked for ahead.
  static constexpr double kPagesAtHand = 48, kPagesKnown = 1024;

  // Share of `steps` that lie on a page of their own and no longer find it when they come to it again, read
  // in place `stride` bytes apart.
  static double far_share(double steps, double stride, double pages_kept) {
    const double pages = std::min(stride / static_cast<double>(kPageBytes), 1.0);
    return steps * pages > pages_kept ? pages : 0.0;
  }

  // Pages that `depth` of k of the left operand's rows lie on, k along memory.
  double pages_of_rows(double depth) const {
    const double size = bytes_of(left.type), page = static_cast<double>(kPageBytes);
    const double apart = std::min(static_cast<double>(left.leading()) * size / page, 1.0);
    return w.rows * std::max(depth * size / page, apart);
  }

  // far_share of the left operand in place.
  double far_rows(double pages_kept) const {
    if (f.left.along_k) return 0.0;
    return far_share(w.depth, static_cast<double>(left.leading() * bytes_of(left.type)), pages_kept);
  }

  // Cycles of a step along rows read in place that are whole pages apart: more of them than a set of L1 has
  // ways drive each other out.
  double way_conflicts() const {
    const double ways = static_cast<double>(a.l1.bytes) / static_cast<double>(kPageBytes);
    return f.paged ? std::max(w.tile_m - ways, 0.0) / 16 * t.far_step : 0.0;
  }

  void packed() const {
    w.math = memo.math(c.edge_dot, {c.tile_m, c.tile_n, inst.m, inst.n, inst.k, taps_in_place()},
                       [&] { return packed_math(); });
    const bool b_in_place = !c.pack_b;
    if (!v.b_prepacked && !b_in_place) { w.pack_b = f.right.copied + f.right.gathered; }
    if (c.pack_a) {
      // Panels of fewer rows than a vector has lanes take as long as full ones.
      const bool panels = !f.left.along_k;
      const double rows = w.row_tiles * std::ceil(w.tile_m / lanes()) * lanes();
      w.pack_a = (panels ? copy(left, rows * w.depth, true) : f.left.copied) + f.left.gathered;
    }
    // Each row tile reads the panel of B again, from L1 or L2; each panel reads the block of A again, from
    // L2: the driver cuts rows until it fits, and every further block of rows reads all of packed B.
    const double block_k = c.block_k > 0 ? std::min<double>(c.block_k, w.depth) : w.depth;
    w.staged = word_bytes(w.tile_n * block_k);
    const double panels = w.col_tiles * std::max(w.passes_k, 1.0);
    const double fitting_rows =
        std::max(0.3 * static_cast<double>(a.l2.bytes) / std::max(word_bytes(block_k), 1.0), w.tile_m);
    const double row_blocks = std::ceil(w.rows / fitting_rows);
    const double a_block = word_bytes(std::min(w.rows, fitting_rows) * block_k);
    // The panel in use shares the cache with the next one, on its way meanwhile.
    // Where nothing was packed just before, the first row tile brings it from where B lives.
    const double warm_tiles = w.row_tiles - (v.b_prepacked || b_in_place ? 1 : 0);
    w.memory = warm_tiles * panels * read(w.staged, 2 * w.staged);
    w.memory += row_blocks * panels * read(a_block, a_block);
    if (row_blocks > 1) w.memory += row_blocks * f.read_words_b;
    // Sums between blocks of k are written and read once each.
    w.pack_b += read(w.rows * w.cols * 8 * std::max(w.passes_k - 1, 0.0), w.rows * w.cols * 4);
    const bool rows_in_place = !c.pack_a && !v.a.patches;
    if (taps_in_place()) {
      const double taps = w.depth / static_cast<double>(v.window->channels);
      w.overhead += taps * (w.row_tiles * w.col_tiles * t.tap_call + w.rows * t.tap_row);
      w.overhead += w.col_tiles * shared_lines(left, taps * w.rows);
    }
    double far = rows_in_place ? f.far_at_hand : 0.0;
    if (b_in_place) {
      const double stride = static_cast<double>(right.leading() * bytes_of(right.type));
      far += far_share(std::min(w.depth, static_cast<double>(kInPlaceDepth)), stride, kPagesAtHand);
      if (right.leading() % 16 != 0) far += t.split_loads * w.tile_n / inst.n / t.far_step;
    }
    w.overhead += w.row_tiles * w.col_tiles * w.depth * far * t.far_step;
    if (rows_in_place)
      w.overhead += w.row_tiles * w.col_tiles * std::ceil(w.depth / inst.k) * way_conflicts();
    if (rows_in_place && v.b_prepacked && w.col_tiles > 1 && f.left.along_k)
      w.overhead += w.col_tiles * f.pages_of_rows * t.page_in_place;
    // Blocks of k come to every row again, once its page is forgotten.
    if (rows_in_place && block_k < w.depth && f.left.along_k && f.pages_of_rows > kPagesKnown)
      w.overhead += (w.passes_k * pages_of_rows(block_k) - f.pages_of_rows) * t.page_in_place;
    if (v.b_prepacked || b_in_place) w.memory += f.read_words_b;
    w.memory += f.read_a;
    w.overhead += w.col_tiles * t.block_call;
    // The few channels of a convolution often are less than a tile.
    if (v.window) w.epilogue += w.rows * std::ceil(std::fmod(w.cols, w.tile_n) / lanes()) * kPartOfLanes;
  }

  // The window of one remainder where a gradient of the input is computed in parts: the first, which has the
  // most taps.
  Window first_part() const {
    Window u = *v.window;
    for (WindowAxis& x : u.axes) {
      if (x.divide == 1) continue;
      x.positions = ceil_div(x.positions, x.divide);
      x.taps = ceil_div(x.taps, x.divide);
      x.spread = std::min<int64_t>(x.spread / x.divide, -1);
      x.shift /= x.divide;
      x.divide = 1;
    }
    return u;
  }

  // Taps from copies of an image's lines. What one group of one part takes, times the parts.
  void amx_lines() const {
    constexpr double kLine = 40;  // cycles of copying a line, beside its bytes
    const int group = k_group(compute_type(left.type, inst));
    const Window part = first_part();
    const LinesShape s = lines_shape(part, group, inst.k);
    const double parts = static_cast<double>(v.window->divisor());
    const double planes = static_cast<double>(part.images * s.z.positions) * parts;
    const double plane_tiles = static_cast<double>(s.tiles_of(s.y.positions));
    const double row_tiles = planes * plane_tiles, steps = static_cast<double>(s.steps());
    const double per_tdp = 2.0 * inst.m * inst.n * inst.k / inst.flops_per_cycle;
    // Beside registers for shorter steps one of the left operand is left, loaded again for each column.
    const bool again = s.whole > 0 && s.tail > 0;
    auto block = [&](double tm, double tn) {
      return steps * (tm * tn * per_tdp + ((again ? tm * tn : tm) + tn) * t.amx_load) + tm * tn * t.amx_sums;
    };
    const double tm = w.tile_m / 16, whole = std::floor(row_tiles / tm), single = row_tiles - whole * tm;
    for (double n = w.cols; n > 0; n -= w.tile_n) {
      const double tn = std::ceil(std::min(n, w.tile_n) / 16);
      w.math += whole * block(tm, tn) + single * block(1, tn);
    }
    const double lines = planes * static_cast<double>(s.z.taps * s.lines_read(s.y.positions));
    const double pixels = lines * static_cast<double>(s.width), size = bytes_of(left.type);
    const double bytes = pixels * static_cast<double>(s.pixel) * size;
    const bool pieces = v.groups > 1 || s.pixel != part.channels;
    w.pack_a = lines * kLine + bytes * t.pack_copy * t.amx_pack +
               (pieces ? pixels * t.gather_piece + shared_lines(left, pixels) : 0.0);
    if (!v.b_prepacked) w.pack_b = f.right.copied * t.amx_pack;
    const double packed_b = steps * parts * 64 * std::ceil(w.cols / 16) * 16;
    const double image_bytes = static_cast<double>(left.extent) * size / w.groups;
    w.staged = steps * 64 * w.tile_n;
    w.memory = read(image_bytes, image_bytes * w.groups) + read(packed_b, packed_b);
    const double at_once = std::min(
        std::max(static_cast<double>(a.l2.bytes) / 4 / std::max(bytes * w.groups / planes, 1.0), 1.0) *
            plane_tiles,
        static_cast<double>(kLinesBlockRows) / kLinesTileRows);
    w.overhead += std::ceil(row_tiles / at_once) * (t.block_call * w.col_tiles + t.amx_config);
  }

  // A gradient from copies of an image's lines: what one group takes.
  void amx_gradient() const {
    constexpr double kLine = 60, kWord = 8, kTurned = 100;  // cycles: beside its words; two pixels; a tile
    const GradientLines lines(*v.window);
    const LinesShape& s = lines.shape;
    const double planes = static_cast<double>(v.window->images * s.z.positions);
    const double steps = planes * static_cast<double>(lines.steps(s.y.positions));
    const double channel_tiles = std::ceil(static_cast<double>(v.window->channels) / 16);
    const double col_tiles = channel_tiles * static_cast<double>(v.window->taps());
    const double row_tiles = std::ceil(w.rows / 16);
    const double per_tdp = 2.0 * inst.m * inst.n * inst.k / inst.flops_per_cycle;
    const double copied = planes * static_cast<double>(s.z.taps * s.lines_read(s.y.positions) * lines.copies);
    const double words = copied * static_cast<double>(lines.pitch()) / 2 * channel_tiles;
    // Sums are read and written for each block of lines that a quarter of the second-level cache holds.
    const double blocks =
        std::ceil((words * 64 + row_tiles * steps * 1024) / (static_cast<double>(a.l2.bytes) / 4));
    auto block = [&](double tm, double tn) {
      return steps * (tm * tn * per_tdp + (tm + tn) * t.amx_load) + blocks * tm * tn * t.amx_sums;
    };
    const double tm = w.tile_m / 16, whole = std::floor(row_tiles / tm), single = row_tiles - whole * tm;
    const double col_blocks = std::ceil(col_tiles / (w.tile_n / 16)), tn = col_tiles / col_blocks;
    w.math = col_blocks * (whole * block(tm, tn) + single * block(1, tn));
    w.pack_b = copied * kLine + words * kWord;
    w.pack_a = row_tiles * steps * kTurned;
    const double image_bytes = static_cast<double>(v.b.extent) * bytes_of(v.b.type) / w.groups;
    w.staged = steps / blocks * 1024 * tm;
    w.shares = w.groups * row_tiles * channel_tiles * std::max(std::floor(w.depth / kLinesSharePixels), 1.0);
    w.memory = read(image_bytes, image_bytes * w.groups) + f.read_a;
    w.overhead += blocks * t.block_call + t.amx_config;
  }

  void amx() const {
    if (reads_lines(v, c)) return amx_lines();
    if (sums_lines(v, c)) return amx_gradient();
    const double steps = std::ceil(w.depth / inst.k);
    const double per_tdp = 2.0 * inst.m * inst.n * inst.k / inst.flops_per_cycle;
    const double chunks = std::max(1.0, std::ceil(steps / 16));
    w.math = over_tiles([&](double r, double n) {
      const double tm = std::ceil(r / 16), tn = std::ceil(n / 16);
      const double loads = (c.pack_a ? tm : tm * t.amx_in_place) + tn;
      return steps * (tm * tn * per_tdp + loads * t.amx_load) + chunks * tm * tn * t.amx_sums;
    });
    if (!v.b_prepacked) { w.pack_b = f.right.copied * t.amx_pack + f.right.gathered; }
    if (c.pack_a) {
      const bool turned = !f.left.along_k;
      w.pack_a = f.left.copied * t.amx_pack * (turned ? t.amx_turn : 1.0) + f.left.gathered;
    }
    w.staged = word_bytes(w.tile_n * w.depth);
    w.memory = stream(f.read_a, c.pack_a ? 0 : w.tile_m) + (v.b_prepacked ? f.read_words_b : 0.0);
    w.overhead += t.block_call * chunks * w.col_tiles + t.amx_config;
    if (c.swap_ab) w.epilogue *= t.amx_swapped;
  }

  void dot() const {
    const double lanes_k = static_cast<double>(inst.n) * inst.k;
    const double steps = std::ceil(w.depth / lanes_k);
    const double convert = f.left.converts ? t.load_convert : 0;
    w.math = steps * over_tiles([&](double r, double n) {
               return step_cycles(r * n, r + n, issue_per_cycle(), t) + (r + n) * convert;
             });
    w.epilogue += w.row_tiles * w.col_tiles * w.tile_m * w.tile_n * t.reduce_per_acc;
    w.memory = stream(f.read_b, w.tile_n) + f.read_a;
    // Rows pass over all columns a few tiles at a time.
    constexpr double kTilesAtOnce = 4;
    const double passes = std::ceil(w.row_tiles / kTilesAtOnce);
    w.memory += (passes - 1) * f.read_b;
  }

  // Staging lines of an operand inside the direct kernel. What has to be turned goes in squares of vectors:
  // about half of the time to read the lines that exist, half to turn whole squares.
  double stage(double lines, bool turned) const {
    if (!turned) {
      return word_bytes(lines * w.depth) * (t.stage_copy + (inst.k > 1 ? t.stage_interleave : 0));
    }
    const double vector = lanes(), words = std::ceil(w.depth / inst.k);
    const double squares = std::ceil(lines / vector) * vector;
    return (lines + squares) / 2 * std::ceil(words / vector) * vector * 4 * t.stage_transpose;
  }

  // Few rows and a row-major B of bytes: words are made in registers (kernels/cpu/interleave.h), 64 columns
  // of four rows by 8 shuffles.
  static constexpr double kInterleaved = 4 * 64 / 8.0;  // bytes per cycle
  bool interleaves() const {
    return tsr::interleaves_bytes(a.vector_bits, inst.name == "vnni", c.swap_ab, v.b_prepacked, c.tile_m,
                                  c.tile_n) &&
           !f.right.along_k && v.m <= c.tile_m;
  }

  void direct() const {
    const double steps = std::ceil(w.depth / inst.k);
    w.math =
        steps * over_tiles([&](double r, double n) { return tile_step(r, v.b_prepacked ? w.tile_n : n); });
    // Columns that do not lie as the arithmetic wants them are staged again for every block of row tiles.
    const double tiles_at_once = tsr::row_tiles_at_once(static_cast<int>(w.tile_m));
    const double row_blocks = std::ceil(w.row_tiles / tiles_at_once);
    const bool turned = f.right.along_k;
    const double panel = word_bytes(w.tile_n * w.depth), words_b = w.col_tiles * panel;
    if (!v.b_prepacked && (turned || f.right.converts || inst.k > 1)) {
      w.pack_b = interleaves() ? w.bytes_b / kInterleaved
                               : row_blocks * stage(w.cols, turned) + read(w.bytes_b * row_blocks, w.bytes_b);
    }
    if (f.left.converts) w.pack_a = stage(w.rows, !f.left.along_k);
    w.overhead += w.row_tiles * w.col_tiles * steps * (way_conflicts() + f.far_known * t.far_step);
    // A row of the tile of columns at a time: wide tiles read longer pieces of memory.
    w.memory = f.read_a;
    if (v.b_prepacked) {
      w.memory += read(words_b, words_b) + (w.row_tiles - 1) * w.col_tiles * read(panel, 2 * panel);
    } else {
      w.memory += stream(f.read_b, 1024 / w.tile_n) * row_blocks;
    }
    if (c.swap_ab) w.epilogue *= 2;
  }
};

// Families of convolutions alone, whose terms count C too.
struct Convolution {
  Family family;
  void (*add)(const CpuTerms&);
};
constexpr Convolution kConvolutions[] = {{Family::cpu_groups, add_groups_work},
                                         {Family::cpu_winograd, add_winograd_work},
                                         {Family::cpu_winograd_weight, add_winograd_weight_work},
                                         {Family::cpu_scatter, add_scatter_work},
                                         {Family::cpu_planes, add_planes_work}};

}  // namespace

void add_cpu_work(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const CostTable& costs,
                  const Instruction& inst, ViewMemo& memo, Work& w) {
  const Cpu cpu{{v, c, a, costs, inst, memo, w}};
  if (memo.cpu.inst != &inst || memo.cpu.swapped != (c.swap_ab != 0)) cpu.find_facts();
  const double outputs = w.rows * w.cols;
  const double vectors = w.rows * std::ceil(w.cols / cpu.lanes());
  const int steps = v.epilogue.count;
  w.epilogue = vectors * (costs.store_per_vector + steps * costs.step_per_vector);
  w.overhead = w.row_tiles * w.col_tiles * costs.tile_overhead;
  const auto found = std::ranges::find(kConvolutions, c.family_id(), &Convolution::family);
  if (found != std::end(kConvolutions)) {
    found->add(cpu);
  } else {
    switch (c.family_id()) {
      case Family::cpu_amx: cpu.amx(); break;
      case Family::cpu_dot: cpu.dot(); break;
      case Family::cpu_direct: cpu.direct(); break;
      default: cpu.packed(); break;
    }
    w.memory += cpu.f.read_c;
  }
  w.ideal_math = outputs * w.depth * 2 / inst.flops_per_cycle;
  w.overhead += costs.unhidden_share * std::min(w.math, w.memory);
  for (double* part : {&w.math, &w.ideal_math, &w.pack_a, &w.pack_b, &w.epilogue, &w.memory, &w.overhead}) {
    *part *= w.groups;
  }
  w.serial += costs.call;
  w.tasks = w.groups * std::max(w.row_tiles, w.col_tiles) * std::max(c.split_k, 1);
  // Parts of k, where a kernel without packing has several, are what its threads take.
  const bool unpacked = c.family_id() == Family::cpu_dot || c.family_id() == Family::cpu_direct;
  const double shares = unpacked && c.split_k > 1 ? c.split_k : w.shares > 0 ? w.shares : w.tasks;
  const bool threads = v.worth_threads() && (!unpacked || v.worth_threads_unpacked());
  w.parallel = std::min<double>(threads ? a.compute_units : 1, shares);
  if (a.compute_units > 1 && threads) {
    w.parallel = shares / std::ceil(shares / w.parallel);
    w.serial += costs.fork_join;
    if (c.split_k > 1) w.serial += outputs * (c.split_k - 1) / cpu.lanes() * 2;
  }
}

}  // namespace tessera
