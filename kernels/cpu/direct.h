// cpu_direct: a whole small GEMM, or a skinny one, in one call with nothing packed ahead. Vectors run along
// the columns of C, single words of the rows' operand are broadcast. What does not lie in memory as the
// arithmetic wants it is staged on the stack, block by block.
#pragma once

#include "cpu/direct_shape.h"
#include "cpu/direct_tile.h"
#include "cpu/interleave.h"
#include "cpu/narrow.h"
#include "cpu/words.h"

namespace tsr {

template <class C>
struct Direct {
  using Math = WordMath<C>;
  using Staged = Stage<C>;
  using Shape = DirectShape<C>;
  using Tile = DirectTile<C>;
  using Job = typename Tile::Job;
  static constexpr int L = Math::L, kGroup = Math::kGroup;
  static constexpr int kRows = C::tile_m, kCols = C::tile_n, kHalfRows = Tile::kHalfRows;
  static constexpr bool kPanels = Shape::kPanels, kWordCols = Shape::kWordCols;
  // Whole tiles of columns, or kept within bounds by masks.
  static constexpr bool kAnyCols = kPanels || Tile::kMaskedLoads;

  static TSR_INLINE Job job_for(const UnpackedArgs& args) {
    Job job;
    job.args = &args;
    job.bare = args.epilogue.plain && !args.sums;
    return job;
  }

  static constexpr long long kCached = 65536;  // elements of an operand that stay in the second-level cache

  // Everything where it lies, all of k at once: columns pass over rows that stay in the second-level cache.
  static TSR_INLINE void in_place(const UnpackedArgs& args, const Shape& s, long long depth) {
    alignas(64) typename Tile::Held held;
    Job job = job_for(args);
    job.held = &held;
    job.first = job.last = true;
    job.words = (depth + kGroup - 1) / kGroup;
    job.cols.k_stride = s.col_k * kGroup;
    job.rows.k_stride = s.row_k * kGroup;
    const bool cold = kPanels ? args.streams != Streams::none : depth * (s.col_end - s.col_begin) > kCached;
    job.ahead.p = nullptr;
    job.ahead.k_stride = job.cols.k_stride;
    job.ahead.stride = 0;
    job.ahead.steps = job.words;
    job.ahead.to_l2 = args.streams != Streams::near;
    job.ahead.sparse = args.streams == Streams::sparse;
    const Lines rows{s.rows + s.row_begin * s.row_stride + args.k_begin * s.row_k, s.row_stride, 0};
    const char* cols = s.cols + args.k_begin * s.col_k;
    for (long long c = s.col_begin; c < s.col_end; c += kCols) {
      job.cols.p = cols + c * s.col_stride;
      job.col = c;
      job.col_count = least(kCols, s.col_end - c);
      if constexpr (kPanels && Math::kOffset) job.start = s.panel_start(args, c);
      if (cold) {
        job.ahead.p = job.cols.p + (kPanels                 ? least(args.ahead_bytes, kCols * s.col_stride)
                                    : c + kCols < s.col_end ? kCols * s.col_stride
                                                            : 24 * job.cols.k_stride);
      }
      Tile::column(job, rows, s.row_begin, s.row_begin, s.row_begin, s.row_end, false, job.col_count < kCols,
                   [](long long) {});
    }
  }

  // A tile of rows that are no words in memory, and columns that are: all of k of the rows is staged at once.
  static constexpr long long kRowsAhead = 4096;  // words of them
  static __attribute__((noinline)) void rows_ahead(const UnpackedArgs& args, Shape s, long long depth) {
    alignas(64) unsigned words[kRowsAhead];
    const long long count = s.row_end - s.row_begin;
    const char* p = s.rows + s.row_begin * s.row_stride + args.k_begin * s.row_k;
    const Lines rows = Staged::take_rows(words, p, s.row_stride, s.row_k, count, depth);
    s.row_stride = rows.stride;
    s.row_k = rows.k_stride / kGroup;
    s.rows = rows.p - s.row_begin * s.row_stride - args.k_begin * s.row_k;
    in_place(args, s, depth);
  }

  static __attribute__((noinline)) void in_blocks(const UnpackedArgs& args) {
    const Shape s(args);
    const long long row_total = s.row_end - s.row_begin, col_total = s.col_end - s.col_begin;
    const long long k_total = args.k_end - args.k_begin;
    const bool words = s.cols_in_place(k_total);
    const bool ready = words && (kAnyCols || col_total % kCols == 0);
    // Rows fewer than a tile's would need more tiles than can wait.
    const bool row_words = s.rows_in_place(k_total) && (row_total >= kRows || row_total == kHalfRows);
    // What is staged has room for so much of k.
    constexpr long long kBlock = Staged::kDepth * kGroup;
    const bool staged_any = !ready || !row_words;
    const long long block =
        !staged_any && (kRows >= 6 || row_total <= kRows) ? args.block_k : least(kBlock, args.block_k);
    const bool one_block = k_total <= block;

    Staged staged;
    const long long row_tiles = least(Staged::kRowTiles, (row_total + kRows - 1) / kRows);
    const long long col_block = (kPanels && row_words ? 1
                                 : row_tiles > 2      ? Staged::kTiles / 4
                                 : row_tiles > 1      ? Staged::kTiles / 2
                                                      : Staged::kTiles) *
                                kCols;
    long long row_block = row_tiles * kRows;
    if (one_block && (row_words ? row_total * k_total <= kCached : Staged::holds_rows(row_total, k_total)))
      row_block = row_total;
    // With a single tile of columns it is the rows that are streamed.
    const bool one_column = col_total <= kCols;
    const char* staged_cols = nullptr;  // the block of columns that `staged` holds
    Job job = job_for(args);
    job.start = staged.start;
    const bool bare = job.bare;
    for (long long c0 = s.col_begin; c0 < s.col_end; c0 += col_block) {
      const long long c1 = least(c0 + col_block, s.col_end);
      for (long long r0 = s.row_begin; r0 < s.row_end; r0 += row_block) {
        const long long r1 = least(r0 + row_block, s.row_end);
        long long k0 = args.k_begin;
        do {
          const long long depth = least(block, args.k_end - k0);
          job.words = (depth + kGroup - 1) / kGroup;
          const char* row = s.rows + r0 * s.row_stride + k0 * s.row_k;
          Lines rows{row, s.row_stride, s.row_k * kGroup};
          if (!row_words) rows = Staged::take_rows(staged.rows, row, s.row_stride, s.row_k, r1 - r0, depth);
          job.rows.k_stride = rows.k_stride;
          job.first = k0 == args.k_begin;
          job.last = k0 + depth == args.k_end;
          job.bare = bare && job.last;
          job.held = staged.held;
          for (long long c = c0; c < c1; c += kCols) {
            job.col = c;
            job.col_count = least(kCols, c1 - c);
            const bool partial = job.col_count < kCols;
            const char* col = s.cols + c * s.col_stride + k0 * s.col_k;
            job.cols = {col, 0, s.col_k * kGroup};
            job.ahead = {c + kCols < c1 ? col + kCols * s.col_stride
                                        : s.cols + c0 * s.col_stride + (k0 + depth) * s.col_k,
                         0,
                         s.col_k * kGroup,
                         job.words,
                         false,
                         false};
            if constexpr (kPanels && Math::kOffset) job.start = s.panel_start(args, c);
            if (!words || (!kAnyCols && partial)) {
              if (col != staged_cols) staged.take_cols(col, s.col_stride, s.col_k, job.col_count, depth);
              staged_cols = col;
              job.cols = {reinterpret_cast<const char*>(staged.cols), 0, kCols * 4};
            }
            if (one_column) {
              if (row_total <= kRows) {
                job.ahead.p = col + 24 * job.ahead.k_stride;
              } else {
                job.ahead.k_stride = s.row_k * kGroup;
                if (s.row_k == Shape::kRowSize && job.words > 4 * kRows) {
                  job.ahead.steps = (job.words + kRows - 1) / kRows;
                  job.ahead.stride = s.row_stride;
                  job.ahead.k_stride *= kRows;
                }
              }
            }
            Tile::column(
                job, rows, s.row_begin, r0, r0, r1, !row_words,
                Tile::kMaskedLoads && words && partial, [&](long long i) __attribute__((always_inline)) {
                  if (one_column && row_total > kRows) {
                    job.ahead.p =
                        job.last ? s.rows + (i + row_tiles * kRows) * s.row_stride + args.k_begin * s.row_k
                                 : s.rows + i * s.row_stride + (k0 + depth) * s.row_k;
                  }
                  if (!one_block && i > r0) ++job.held;
                });
            if (!one_block) ++job.held;
          }
        } while ((k0 += block) < args.k_end);
      }
    }
  }

  static TSR_INLINE void run(const UnpackedArgs& args) {
    if constexpr (Interleave<C>::kPossible) {
      if (Interleave<C>::takes(args)) {
        Interleave<C> few;
        return few.run(args);
      }
    }
    if constexpr (Narrow<C>::kPossible) {
      if (Narrow<C>::takes(args)) return Narrow<C>::run(args);
    }
    const Shape s(args);
    const long long rows = s.row_end - s.row_begin, cols = s.col_end - s.col_begin;
    const long long depth = args.k_end - args.k_begin;
    if constexpr (kPanels && (kGroup > 1 || Math::kRow != Type::f32)) {
      if (rows <= kRows && Staged::row_words(s.row_k, rows, depth) <= kRowsAhead && !s.rows_in_place(depth))
        return rows_ahead(args, s, depth);
    }
    if constexpr (kWordCols) {
      const bool streamed = depth > args.block_k || (rows > kRows && rows * depth > kCached);
      const bool cached = kRows >= 6 || rows <= kRows || depth <= Staged::kDepth;
      if (!streamed && cached && (kAnyCols || cols % kCols == 0) && s.cols_in_place(depth) &&
          s.rows_in_place(depth)) {
        return in_place(args, s, depth);
      }
    }
    in_blocks(args);
  }
};

template <class Config>
TSR_INLINE void cpu_direct(const void* p) {
  const UnpackedArgs& args = *static_cast<const UnpackedArgs*>(p);
  if (args.parts) return Unpacked<Config>::add_parts(args);
  Direct<Config>::run(args);
}

}  // namespace tsr
