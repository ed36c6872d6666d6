// cpu_winograd_weight: the gradient of a convolution's filter by minimal filtering F(3,2) along every axis of
// three taps. Tiles of the images and of dY are transformed, vectors along channels, into rows of one matrix
// for each point; the products of two such matrices, summed over tiles, are what three neighbouring weights
// along each axis are made of.
#pragma once

#include "cpu/product.h"
#include "cpu/winograd_tiles.h"

namespace tsr {

// The config of the products: dY's tiles have their rows side by side, the images' lie as they were written.
template <class C>
struct WinogradWeightProduct : BareProduct<FloatOperands<C>> {
  static constexpr int a_along_k = 0, a_step = 0, b_step = 0;
};

template <class C>
struct WinogradWeight {
  using E = Epilogue<C>;
  static constexpr int L = E::L;
  using F = typename Vec<L>::F;
  using Weights = WinogradNest<WinogradWeights, C::taps_d, C::taps_h, C::taps_w>;

  // Columns that fill up a vector are those of the next group, or anything: nobody reads their sums.
  static TSR_INLINE void products(const WinogradWeightArgs& a) {
    using P = Packed<WinogradWeightProduct<C>>;
    EpilogueArgs none{};
    PackedArgs p{};
    p.a = a.left;
    p.a_row_bytes = 4;
    p.a_step_bytes = a.left_row;
    p.b = a.right + a.col_begin * 4;
    p.b_step_bytes = a.right_row;
    p.rows = a.rows;
    p.cols = P::whole_columns(a.col_end - a.col_begin);
    p.steps = a.count;
    p.first = a.first;
    p.partial = a.sums + a.col_begin * 4;
    p.partial_stride = a.sums_row / 4;
    p.epilogue = &none;
    P::template dispatch<P::kVectors>(p);
  }

  static TSR_INLINE void weights(const WinogradWeightArgs& a, const char* sums, long long row, long long c,
                                 int live) {
    F x[Weights::kIn], y[Weights::kOut];
    TSR_UNROLL for (int p = 0; p < Weights::kIn; ++p) x[p] = load_whole<F>(sums + p * a.sums_point);
    for (long long i = 1; i < a.parts; ++i) {
      const char* part = sums + i * a.part_bytes;
      TSR_UNROLL for (int p = 0; p < Weights::kIn; ++p) x[p] += load_whole<F>(part + p * a.sums_point);
    }
    Weights::apply(x, y);
    TSR_UNROLL for (int t = 0; t < Weights::kOut; ++t)
        E::store(as_bits<L>(y[t]), a.epilogue, row, t * a.channels + c, live);
  }
  static __attribute__((noinline)) void all_weights(const WinogradWeightArgs& a) {
    const long long whole = a.channels / L * L;
    for (long long row = a.row_begin; row < a.row_end; ++row) {
      const char* sums = a.sums + row * a.sums_row;
      for (long long c = 0; c < whole; c += L) weights(a, sums + c * 4, row, c, L);
      if (whole < a.channels) weights(a, sums + whole * 4, row, whole, static_cast<int>(a.channels - whole));
    }
  }

  static TSR_INLINE void run(const WinogradWeightArgs& a) {
    switch (a.phase) {
      case WinogradWeightPhase::images:
        return WinogradTransform<L, C::type_b, WinogradInput, C>::run(a.tiles);
      case WinogradWeightPhase::gradients:
        return WinogradTransform<L, C::type_a, WinogradGradient, C>::run(a.tiles);
      case WinogradWeightPhase::products: return products(a);
      case WinogradWeightPhase::weights: return all_weights(a);
    }
  }
};

template <class Config>
TSR_INLINE void cpu_winograd_weight(const void* args) {
  WinogradWeight<Config>::run(*static_cast<const WinogradWeightArgs*>(args));
}

}  // namespace tsr
