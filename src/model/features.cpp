#include "model/features.h"

#include <algorithm>
#include <cmath>

#include "model/model.h"

namespace tessera {
namespace {

using In = const FeatureInput&;

double log2_of(double x) { return std::log2(std::max(x, 1.0)); }

// Share of the whole a part takes, 0 when there is no whole.
double share(double part, double whole) { return whole > 0 ? part / whole : 0.0; }

// Where the next row begins in its page: rows a power of two apart share cache sets.
double page_offset(const Operand& o) { return double(o.leading() * bytes_of(o.type) % 4096); }

constexpr FeatureTag P = FeatureTag::problem, K = FeatureTag::kernel, I = FeatureTag::interaction;

constexpr Feature kFeatures[] = {
    {"log2_m", P, [](In f) { return log2_of(static_cast<double>(f.v.m)); }},
    {"log2_n", P, [](In f) { return log2_of(static_cast<double>(f.v.n)); }},
    {"log2_k", P, [](In f) { return log2_of(static_cast<double>(f.v.k)); }},
    {"log2_groups", P, [](In f) { return log2_of(static_cast<double>(f.v.groups)); }},
    {"log2_flops", P, [](In f) { return log2_of(f.v.flops()); }},
    {"log2_bytes", P, [](In f) { return log2_of(f.v.bytes()); }},
    {"intensity", P, [](In f) { return f.v.flops() / f.v.bytes(); }},
    {"a_row_major", P, [](In f) { return f.v.a.row_major() ? 1.0 : 0.0; }},
    {"b_row_major", P, [](In f) { return f.v.b.row_major() ? 1.0 : 0.0; }},
    {"bytes_a", P, [](In f) { return double(bytes_of(f.v.a.type)); }},
    {"bytes_c", P, [](In f) { return double(bytes_of(f.v.c.type)); }},
    {"m_mod_16", P, [](In f) { return double(f.v.m % 16); }},
    {"n_mod_16", P, [](In f) { return double(f.v.n % 16); }},
    {"k_mod_32", P, [](In f) { return double(f.v.k % 32); }},
    {"a_page_offset", P, [](In f) { return page_offset(f.v.a); }},
    {"b_page_offset", P, [](In f) { return page_offset(f.v.b); }},
    {"epilogue_steps", P, [](In f) { return double(f.v.epilogue.count); }},
    {"b_prepacked", P, [](In f) { return f.v.b_prepacked ? 1.0 : 0.0; }},
    {"family", K, [](In f) { return double(f.c.family); }},
    {"block_m", K, [](In f) { return double(f.c.block_m); }},
    {"block_n", K, [](In f) { return double(f.c.block_n); }},
    {"block_k", K, [](In f) { return double(f.c.block_k); }},
    {"tile_m", K, [](In f) { return double(f.c.tile_m); }},
    {"tile_n", K, [](In f) { return double(f.c.tile_n); }},
    {"waves", K, [](In f) { return double(f.c.wave_m) * f.c.wave_n * f.c.wave_k; }},
    {"inst_m", K, [](In f) { return double(f.c.inst_m); }},
    {"inst_n", K, [](In f) { return double(f.c.inst_n); }},
    {"inst_k", K, [](In f) { return double(f.c.inst_k); }},
    {"stages", K, [](In f) { return double(f.c.stages); }},
    {"pipeline", K, [](In f) { return double(f.c.pipeline); }},
    {"scheduler", K, [](In f) { return double(f.c.scheduler); }},
    {"store", K, [](In f) { return double(f.c.store); }},
    {"vec_a", K, [](In f) { return double(f.c.vec_a); }},
    {"vec_b", K, [](In f) { return double(f.c.vec_b); }},
    {"vec_c", K, [](In f) { return double(f.c.vec_c); }},
    {"double_buffer", K, [](In f) { return double(f.c.double_buffer); }},
    {"pack_a", K, [](In f) { return double(f.c.pack_a); }},
    {"pack_b", K, [](In f) { return double(f.c.pack_b); }},
    {"edge_dot", K, [](In f) { return double(f.c.edge_dot); }},
    {"swap_ab", K, [](In f) { return double(f.c.swap_ab); }},
    {"split_k", K, [](In f) { return double(f.c.split_k); }},
    {"persistent", K, [](In f) { return double(f.c.persistent); }},
    {"cluster", K, [](In f) { return double(f.c.cluster_m) * f.c.cluster_n * f.c.cluster_k; }},
    {"raster", K, [](In f) { return double(f.c.raster); }},
    {"fill_m", I, [](In f) { return f.w.fill_m; }},
    {"fill_n", I, [](In f) { return f.w.fill_n; }},
    {"fill_k", I, [](In f) { return f.w.fill_k; }},
    {"log2_row_tiles", I, [](In f) { return log2_of(f.w.row_tiles); }},
    {"log2_col_tiles", I, [](In f) { return log2_of(f.w.col_tiles); }},
    {"log2_tasks", I, [](In f) { return log2_of(f.w.tasks); }},
    {"parallel_efficiency", I, [](In f) { return f.w.parallel / std::max(f.a.compute_units, 1); }},
    {"math_efficiency", I, [](In f) { return share(f.w.ideal_math, f.w.math); }},
    {"log2_math", I, [](In f) { return log2_of(f.w.math); }},
    {"memory_share", I, [](In f) { return share(f.w.memory, total_cycles(f.w)); }},
    {"pack_share", I, [](In f) { return share(f.w.pack_a + f.w.pack_b, total_cycles(f.w)); }},
    {"epilogue_share", I, [](In f) { return share(f.w.epilogue, total_cycles(f.w)); }},
    {"overhead_share", I, [](In f) { return share(f.w.overhead + f.w.serial, total_cycles(f.w)); }},
    {"log2_staged", I, [](In f) { return log2_of(f.w.staged); }},
    {"log2_cycles", I, [](In f) { return log2_of(total_cycles(f.w)); }},
    {"log2_analytic", I, [](In f) { return std::log2(std::max(f.analytic_us, 1e-3)); }},
};

constexpr std::string_view kTags[] = {"problem", "kernel", "interaction"};

}  // namespace

std::span<const Feature> features() { return kFeatures; }
std::string_view to_string(FeatureTag t) { return kTags[static_cast<size_t>(t)]; }

void compute_features(const GemmView& v, const KernelConfig& c, const ArchSpec& a, std::span<double> out) {
  const Work w = work_of(v, c, a, CostTable(a));
  double us = 0;
  analytic_model().predict(v, a, {&c, 1}, {&us, 1});
  const FeatureInput in{v, c, a, w, us};
  for (size_t i = 0; i < std::size(kFeatures); ++i) out[i] = kFeatures[i].value(in);
}

void compute_features(const FeatureInput& in, std::span<const uint16_t> chosen, float* out, size_t stride) {
  for (size_t i = 0; i < chosen.size(); ++i)
    out[i * stride] = static_cast<float>(kFeatures[chosen[i]].value(in));
}

}  // namespace tessera
