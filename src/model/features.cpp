#include "model/features.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/cache_line.h"
#include "core/groups_shape.h"
#include "core/lines_shape.h"
#include "core/packed_columns.h"
#include "core/tile_math.h"
#include "model/analytic.h"

namespace tessera {
namespace {

using In = const FeatureInput&;

LogMemo& logs_of_thread() {
  thread_local LogMemo logs;
  return logs;
}

double log2_of(double x) { return std::log2(std::max(x, 1.0)); }
double log2_of(In f, double x) { return f.shared.logs.log2(std::max(x, 1.0)); }

// Share of the whole a part takes, 0 when there is no whole.
double share(double part, double whole) { return whole > 0 ? part / whole : 0.0; }

// Where the next row begins in its page: rows a power of two apart share cache sets.
double page_offset(const Operand& o) { return double(o.leading() * bytes_of(o.type) % kPageBytes); }

// Bytes that all rows begin at a multiple of, as a power of two; at most a line of L2.
double log2_align(const Operand& o) {
  return std::countr_zero(static_cast<uint64_t>(o.leading() * bytes_of(o.type) | kTmaLine));
}

// Of A and B for workgroups that run at once, where they walk over C in bands of `swizzle`.
double bytes_in_flight(In f) {
  const double blocks = std::min(f.w.row_tiles * f.w.col_tiles, f.shared.units / f.parts);
  const double short_side = std::min<double>(f.c.swizzle, f.c.raster ? f.w.row_tiles : f.w.col_tiles);
  const double band = std::max(short_side, 1.0), along = std::max(blocks / band, 1.0);
  const double rows = f.w.tile_m * (f.c.raster ? band : along),
               cols = f.w.tile_n * (f.c.raster ? along : band);
  return (rows + cols) * f.w.depth * f.shared.size_a;
}

double workgroups_held(In f) {
  constexpr double kThreads = 2048, kMost = 32;
  if (f.c.family_id() == Family::tma_ws) return 1;
  const bool simt = f.c.family_id() == Family::simt;
  const double waves = double(f.c.wave_m) * f.c.wave_n * f.c.wave_k;
  const double threads = simt ? f.w.tile_m * f.w.tile_n / std::max(f.c.tile_m * f.c.tile_n, 1)
                              : waves * std::max(f.a.wave_size, 1);
  const double by_memory =
      f.w.staged > 0 ? std::floor(static_cast<double>(f.a.smem_bytes) / f.w.staged) : kMost;
  return std::max(std::min({kMost, by_memory, std::floor(kThreads / std::max(threads, 1.0))}), 1.0);
}

// Cycles that the device needs at least.
double least_cycles(In f) {
  const double bandwidth = std::max(f.a.dram.bytes_per_cycle, 1.0);
  return std::max({f.w.ideal_math / f.shared.units, f.shared.bytes / bandwidth, 1.0});
}

// Of the rows or columns, how many the last tile has.
double last_piece(double whole, double pieces, double piece) { return whole - (pieces - 1) * piece; }

// Share of what the tiles of a line of positions cover that is work; 1 for families that see matrices.
double line_fill(In f) {
  if (!f.groups) return 1.0;
  const GroupsShape& s = *f.groups;
  const auto positions = static_cast<double>(s.axes[2].positions), columns = static_cast<double>(s.columns);
  return positions / (std::ceil(positions / columns) * columns);
}

// The same of the lanes that chunks of channels cover.
double lane_fill(In f) {
  if (!f.groups) return 1.0;
  const GroupsShape& s = *f.groups;
  return static_cast<double>(s.groups * s.across()) / (static_cast<double>(s.chunks) * f.c.tile_n);
}

// The largest power of two, in bytes, that the distance of rows is a multiple of; at most two pages.
double log2_apart(const Operand& o) {
  constexpr uint64_t kMost = 8192;
  return std::countr_zero(static_cast<uint64_t>(o.leading() * bytes_of(o.type)) | kMost);
}

double by_lines(In f) {
  return f.c.family_id() == Family::cpu_amx && (reads_lines(f.v, f.c) || sums_lines(f.v, f.c)) ? 1.0 : 0.0;
}

// A fact of how cpu_groups sees the problem, 0 for others.
template <auto fact>
double of_groups(In f) {
  return f.groups ? static_cast<double>(fact(*f.groups)) : 0.0;
}

// Registers that a step of a line of taps of cpu_groups takes, sums and what they are made of.
double groups_registers(In f) {
  if (!f.groups) return 0.0;
  const GroupsShape& s = *f.groups;
  const double vectors = static_cast<double>(f.c.tile_n) / std::max(f.c.inst_n, 1);
  return static_cast<double>(s.columns + (s.gradient ? s.axes[2].taps + 1 : 0)) * vectors;
}

// How many times the predicted cycles are those of a part of the work.
double log2_over(In f, double part) {
  return f.shared.logs.log2(std::max(f.analytic_us * f.a.clock_ghz * 1e3, 1.0) / std::max(part, 1.0));
}

// Of the products of the view, the share that meets no padding.
double window_fill(In f) {
  const double all =
      static_cast<double>(f.v.m) * static_cast<double>(f.v.n) * static_cast<double>(f.v.groups) * f.v.depth();
  return f.v.window ? share(f.v.work, all) : 1.0;
}

// A fact of the window, 0 without one.
template <auto fact>
double of_window(In f) {
  return f.v.window ? static_cast<double>(fact(*f.v.window)) : 0.0;
}

template <auto value>
constexpr Feature row(std::string_view name, FeatureTag tag, FeatureOf of = FeatureOf::all) {
  const auto column = [](std::span<const FeatureInput> rows, float* out) {
    for (size_t i = 0; i < rows.size(); ++i) out[i] = static_cast<float>(value(rows[i]));
  };
  return {name, tag, value, column, of};
}

template <auto member>
constexpr Feature knob(std::string_view name, FeatureTag tag, FeatureOf of = FeatureOf::all) {
  const auto value = [](In f) { return double(f.c.*member); };
  const auto column = [](std::span<const FeatureInput> rows, float* out) {
    for (size_t i = 0; i < rows.size(); ++i) out[i] = static_cast<float>(rows[i].c.*member);
  };
  return {name, tag, value, column, of};
}

constexpr FeatureTag P = FeatureTag::problem, K = FeatureTag::kernel, I = FeatureTag::interaction;
constexpr FeatureOf kGpu = FeatureOf::gpu, kCpu = FeatureOf::cpu;

constexpr Feature kFeatures[] = {
    row<[](In f) { return log2_of(f, static_cast<double>(f.v.m)); }>("log2_m", P),
    row<[](In f) { return log2_of(f, static_cast<double>(f.v.n)); }>("log2_n", P),
    row<[](In f) { return log2_of(f, static_cast<double>(f.v.k)); }>("log2_k", P),
    row<[](In f) { return log2_of(f, static_cast<double>(f.v.groups)); }>("log2_groups", P),
    row<[](In f) { return log2_of(f, f.v.flops()); }>("log2_flops", P),
    row<[](In f) { return log2_of(f, f.v.bytes()); }>("log2_bytes", P),
    row<[](In f) { return f.v.flops() / f.v.bytes(); }>("intensity", P),
    row<[](In f) { return f.v.a.row_major() ? 1.0 : 0.0; }>("a_row_major", P),
    row<[](In f) { return f.v.b.row_major() ? 1.0 : 0.0; }>("b_row_major", P),
    row<[](In f) { return double(bytes_of(f.v.a.type)); }>("bytes_a", P),
    row<[](In f) { return double(bytes_of(f.v.c.type)); }>("bytes_c", P),
    row<[](In f) { return double(f.v.m % 16); }>("m_mod_16", P),
    row<[](In f) { return double(f.v.n % 16); }>("n_mod_16", P),
    row<[](In f) { return double(f.v.k % 32); }>("k_mod_32", P),
    row<[](In f) { return page_offset(f.v.a); }>("a_page_offset", P),
    row<[](In f) { return page_offset(f.v.b); }>("b_page_offset", P),
    row<[](In f) { return double(f.v.epilogue.count); }>("epilogue_steps", P),
    row<[](In f) { return f.v.b_prepacked ? 1.0 : 0.0; }>("b_prepacked", P),
    knob<&KernelConfig::family>("family", K),
    knob<&KernelConfig::block_m>("block_m", K),
    knob<&KernelConfig::block_n>("block_n", K),
    knob<&KernelConfig::block_k>("block_k", K),
    knob<&KernelConfig::tile_m>("tile_m", K),
    knob<&KernelConfig::tile_n>("tile_n", K),
    row<[](In f) { return double(f.c.wave_m) * f.c.wave_n * f.c.wave_k; }>("waves", K),
    knob<&KernelConfig::inst_m>("inst_m", K),
    knob<&KernelConfig::inst_n>("inst_n", K),
    knob<&KernelConfig::inst_k>("inst_k", K),
    knob<&KernelConfig::stages>("stages", K),
    knob<&KernelConfig::pipeline>("pipeline", K),
    knob<&KernelConfig::scheduler>("scheduler", K),
    knob<&KernelConfig::store>("store", K),
    knob<&KernelConfig::vec_a>("vec_a", K),
    knob<&KernelConfig::vec_b>("vec_b", K),
    knob<&KernelConfig::vec_c>("vec_c", K),
    knob<&KernelConfig::double_buffer>("double_buffer", K),
    knob<&KernelConfig::pack_a>("pack_a", K),
    knob<&KernelConfig::pack_b>("pack_b", K),
    knob<&KernelConfig::edge_dot>("edge_dot", K),
    knob<&KernelConfig::swap_ab>("swap_ab", K),
    knob<&KernelConfig::split_k>("split_k", K),
    knob<&KernelConfig::persistent>("persistent", K),
    row<[](In f) { return double(f.c.cluster_m) * f.c.cluster_n * f.c.cluster_k; }>("cluster", K),
    knob<&KernelConfig::raster>("raster", K),
    row<[](In f) { return f.w.fill_m; }>("fill_m", I),
    row<[](In f) { return f.w.fill_n; }>("fill_n", I),
    row<[](In f) { return f.w.fill_k; }>("fill_k", I),
    row<[](In f) { return log2_of(f, f.w.row_tiles); }>("log2_row_tiles", I),
    row<[](In f) { return log2_of(f, f.w.col_tiles); }>("log2_col_tiles", I),
    row<[](In f) { return log2_of(f, f.w.tasks); }>("log2_tasks", I),
    row<[](In f) { return f.w.parallel / std::max(f.a.compute_units, 1); }>("parallel_efficiency", I),
    row<[](In f) { return share(f.w.ideal_math, f.w.math); }>("math_efficiency", I),
    row<[](In f) { return log2_of(f, f.w.math); }>("log2_math", I),
    row<[](In f) { return share(f.w.memory, f.cycles); }>("memory_share", I),
    row<[](In f) { return share(f.w.pack_a + f.w.pack_b, f.cycles); }>("pack_share", I),
    row<[](In f) { return share(f.w.epilogue, f.cycles); }>("epilogue_share", I),
    row<[](In f) { return share(f.w.overhead + f.w.serial, f.cycles); }>("overhead_share", I),
    row<[](In f) { return log2_of(f, f.w.staged); }>("log2_staged", I),
    row<[](In f) { return log2_of(f, f.cycles); }>("log2_cycles", I),
    row<[](In f) { return f.shared.logs.log2(std::max(f.analytic_us, 1e-3)); }>("log2_analytic", I),
    row<[](In f) { return log2_align(f.v.a); }>("log2_align_a", P, kGpu),
    row<[](In f) { return log2_align(f.v.b); }>("log2_align_b", P, kGpu),
    row<[](In f) { return log2_align(f.v.c); }>("log2_align_c", P, kGpu),
    knob<&KernelConfig::wave_m>("wave_m", K, kGpu),
    knob<&KernelConfig::wave_n>("wave_n", K, kGpu),
    knob<&KernelConfig::wave_groups>("wave_groups", K, kGpu),
    knob<&KernelConfig::blocks_per_cu>("blocks_per_cu", K, kGpu),
    knob<&KernelConfig::cluster_m>("cluster_m", K, kGpu),
    knob<&KernelConfig::cluster_n>("cluster_n", K, kGpu),
    knob<&KernelConfig::cluster_k>("cluster_k", K, kGpu),
    row<[](In f) { return std::ceil(f.w.tasks / f.shared.units); }>("rounds", I, kGpu),
    row<[](In f) { return f.shared.logs.log2(std::max(f.w.tasks, 1.0) / f.shared.units); }>(
        "log2_blocks_per_unit", I, kGpu),
    row<[](In f) { return f.resident; }>("resident", I, kGpu),
    row<[](In f) { return f.shared.logs.log2(f.turns); }>("log2_turns", I, kGpu),
    row<[](In f) { return f.turns / std::ceil(f.turns); }>("turns_filled", I, kGpu),
    row<[](In f) { return f.steps; }>("steps", I, kGpu),
    row<[](In f) { return f.steps / std::max(f.c.stages, 1); }>("steps_per_stage", I, kGpu),
    row<[](In f) { return log2_of(f, f.w.tile_m * f.w.tile_n * f.w.depth / f.parts); }>("log2_block_math", I,
                                                                                        kGpu),
    row<[](In f) { return 1e3 / (f.w.tile_m * f.c.cluster_m) + 1e3 / (f.w.tile_n * f.c.cluster_n); }>(
        "load_per_math", I, kGpu),
    row<[](In f) { return log2_of(f, bytes_in_flight(f)); }>("log2_in_flight", I, kGpu),
    row<[](In f) { return log2_of(f, f.w.rows * f.w.cols * f.w.groups * f.parts); }>("log2_sums", I, kGpu),
    row<[](In f) {
      return f.shared.logs.log2(std::max(f.analytic_us, 1e-3) * f.a.clock_ghz * 1e3 / least_cycles(f));
    }>("over_least", I, kGpu),
    row<[](In f) { return page_offset(f.v.c); }>("c_page_offset", P, kCpu),
    row<[](In f) { return f.v.a.type == DType::u8 ? 1.0 : 0.0; }>("a_unsigned", P, kCpu),
    row<[](In f) { return f.v.a.patches   ? 1.0
                          : f.v.b.patches ? 2.0
                                          : 0.0; }>("patches", P, kCpu),
    row<of_window<[](const Window& w) { return log2_of(double(w.taps())); }>>("log2_taps", P, kCpu),
    row<of_window<[](const Window& w) { return log2_of(double(w.channels)); }>>("log2_channels", P, kCpu),
    row<of_window<[](const Window& w) { return log2_of(double(w.images)); }>>("log2_images", P, kCpu),
    row<of_window<[](const Window& w) { return w.axes[2].positions; }>>("line_positions", P, kCpu),
    row<of_window<[](const Window& w) { return w.axes[2].taps; }>>("line_taps", P, kCpu),
    row<of_window<[](const Window& w) { return w.axes[2].step; }>>("line_step", P, kCpu),
    row<of_window<[](const Window& w) { return w.axes[2].divide; }>>("line_divide", P, kCpu),
    row<of_window<[](const Window& w) { return w.axes[2].spread; }>>("line_spread", P, kCpu),
    row<of_window<[](const Window& w) { return w.axes[2].shift; }>>("line_shift", P, kCpu),
    row<of_window<[](const Window& w) { return w.axes[1].positions; }>>("lines", P, kCpu),
    row<of_window<[](const Window& w) { return w.axes[1].taps; }>>("lines_taps", P, kCpu),
    row<[](In f) { return last_piece(f.w.rows, f.w.row_tiles, f.w.tile_m); }>("last_rows", I, kCpu),
    row<[](In f) { return last_piece(f.w.cols, f.w.col_tiles, f.w.tile_n); }>("last_cols", I, kCpu),
    row<line_fill>("line_fill", I, kCpu),
    row<lane_fill>("lane_fill", I, kCpu),
    row<[](In f) { return f.w.passes_k; }>("passes_k", I, kCpu),
    row<[](In f) { return log2_of(f, f.w.bytes_a); }>("log2_left", I, kCpu),
    row<[](In f) { return log2_of(f, f.w.bytes_b); }>("log2_right", I, kCpu),
    row<[](In f) { return log2_of(f, f.w.bytes_c); }>("log2_result", I, kCpu),
    row<[](In f) { return share(f.w.math, f.cycles); }>("math_share", I, kCpu),
    row<[](In f) { return share(f.w.pack_a, f.cycles); }>("pack_a_share", I, kCpu),
    row<[](In f) { return log2_apart(f.v.a); }>("log2_apart_a", P, kCpu),
    row<[](In f) { return log2_apart(f.v.b); }>("log2_apart_b", P, kCpu),
    row<[](In f) { return log2_apart(f.v.c); }>("log2_apart_c", P, kCpu),
    row<[](In f) { return double(f.v.k % 64); }>("k_mod_64", P, kCpu),
    row<[](In f) { return double(f.v.n % 64); }>("n_mod_64", P, kCpu),
    row<window_fill>("window_fill", P, kCpu),
    row<of_window<[](const Window& w) { return w.axes[0].taps; }>>("planes_taps", P, kCpu),
    row<of_window<[](const Window& w) { return w.axes[0].positions; }>>("planes", P, kCpu),
    row<of_window<[](const Window& w) { return log2_of(double(w.positions())); }>>("log2_positions", P, kCpu),
    row<of_window<[](const Window& w) { return double(w.divisor()); }>>("divisor", P, kCpu),
    row<of_window<[](const Window& w) { return double(w.axes[1].step); }>>("lines_step", P, kCpu),
    row<by_lines>("by_lines", I, kCpu),
    row<[](In f) { return log2_of(f, f.w.tile_m * f.w.depth * f.shared.size_a); }>("log2_row_panel", I, kCpu),
    row<[](In f) { return f.w.tile_m * std::ceil(f.w.tile_n / std::max(f.c.inst_n, 1)); }>("sums", I, kCpu),
    row<[](In f) { return std::ceil(f.w.depth / std::max(f.c.inst_k, 1)); }>("steps_k", I, kCpu),
    row<of_groups<[](const GroupsShape& s) { return s.steps; }>>("groups_steps", I, kCpu),
    row<of_groups<[](const GroupsShape& s) { return s.vectors_read; }>>("groups_loads", I, kCpu),
    row<of_groups<[](const GroupsShape& s) { return s.chunks; }>>("groups_chunks", I, kCpu),
    row<groups_registers>("groups_registers", I, kCpu),
    row<[](In f) { return share(f.w.pack_b, f.cycles); }>("pack_b_share", I, kCpu),
    row<[](In f) { return share(f.w.overhead, f.cycles); }>("tile_overhead_share", I, kCpu),
    row<[](In f) { return log2_over(f, f.w.ideal_math); }>("over_math", I, kCpu),
    row<[](In f) { return log2_over(f, f.w.memory); }>("over_memory", I, kCpu),
};

constexpr std::string_view kTags[] = {"problem", "kernel", "interaction"};

}  // namespace

FeatureView::FeatureView(const GemmView& view, const ArchSpec& arch)
    : v(view),
      a(arch),
      logs(logs_of_thread()),
      bytes(view.bytes()),
      size_a(bytes_of(view.a.type)),
      units(std::max(arch.compute_units, 1)) {}

FeatureInput::FeatureInput(const FeatureView& view, const KernelConfig& config, const Work& work, double us,
                           const GroupsShape* shape)
    : shared(view),
      v(view.v),
      c(config),
      a(view.a),
      w(work),
      analytic_us(us),
      cycles(work.cycles),
      groups(shape) {
  if (a.backend == BackendKind::cpu) return;
  parts = std::max(c.split_k, 1) * double(c.cluster_k);
  steps = std::ceil(w.depth / parts / std::max(c.block_k, 1));
  resident = workgroups_held(*this);
  turns = std::max(w.tasks, 1.0) / (view.units * resident);
}

std::span<const Feature> features() { return kFeatures; }
bool tells(const Feature& f, BackendKind backend) {
  return f.of == FeatureOf::all || (f.of == FeatureOf::cpu) == (backend == BackendKind::cpu);
}
std::string_view to_string(FeatureTag t) { return kTags[static_cast<size_t>(t)]; }

void compute_features(const GemmView& view_of_all, const KernelConfig& c, const ArchSpec& a,
                      std::span<double> out) {
  const bool by_columns = view_of_all.b_prepacked && packs_columns(c);
  const GemmView v = by_columns ? with_packed_columns(view_of_all) : view_of_all;
  AnalyticTerms terms(v, a);
  const Work w = terms.work(c);
  const FeatureView view(v, a);
  const bool by_groups = c.family_id() == Family::cpu_groups;
  const GroupsShape shape = by_groups ? groups_shape(v, c) : GroupsShape{};
  const FeatureInput in(view, c, w, terms.us(c, &w), by_groups ? &shape : nullptr);
  for (size_t i = 0; i < std::size(kFeatures); ++i) out[i] = kFeatures[i].value(in);
}

}  // namespace tessera
