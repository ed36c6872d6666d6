// cpu_groups for results with channels: lines of the result are walked, the sums of a few columns staying in
// registers while each column that is read feeds every tap it meets.
#pragma once

#include "cpu/groups_weights.h"

namespace tsr {

template <class C>
struct GroupsLines {
  using M = GroupsMath<C>;
  using E = typename M::E;
  using F = typename M::F;
  using U = typename M::U;
  using Chunk = typename M::Chunk;
  static constexpr int L = M::L, V = M::V, kTaps = M::kTaps;
  static constexpr long long kSlot = M::kSlot;
  static constexpr int kUnit = M::kBackward ? M::kStride : 1;
  static constexpr int B = (C::tile_m + kUnit - 1) / kUnit * kUnit;  // columns of a tile
  // Sums go past the caches: Config::streams says that the result is far beyond them.
  static constexpr bool kStreams = requires { C::streams; };

  // A tile of columns of one line.
  struct Job {
    const GroupsArgs* args;
    const Chunk* chunk;
    const char* in;      // column 0 of the line that the first tap meets
    const float* panel;  // weights of that line of the filter
    long long d_count, h_count;
    long long d_in, h_in, d_panel, h_panel;  // from one line of the filter to the next: bytes, floats
    long long pixel;                         // bytes of a pixel of `in`
    long long in_w, in_col, out_w, out_col;  // the tile's first columns may lie outside
    long long row;                           // pixel of column 0 of the line
    long long o, fresh;                      // first channel, and first that no other chunk stores
    bool reads_whole;                        // vectors may be read whole
    bool whole;                              // all lanes go to memory as they are
    bool streams;                            // ... and in whole lines of memory
    long long image, block_line;             // of blocks: the image (n, d), and the first line of pixels
    Stream<false> next_in;
    Stream<true> next_out;
  };

  template <bool kEdge, bool kWhole>
  static __attribute__((noinline)) void tile(const Job& at) {
    const Chunk& chunk = *at.chunk;
    F acc[B][V];
    each<B * V>([&](auto i) __attribute__((always_inline)) { acc[i.value / V][i.value % V] = F{}; });
    const long long pixel = at.pixel, in_w = at.in_w, in_col = at.in_col;
    const char* line_d = at.in + in_col * pixel;
    const float* panel_d = at.panel;
    for (long long d = at.d_count; d > 0; --d, line_d += at.d_in, panel_d += at.d_panel) {
      const char* line = line_d;
      const float* panel = panel_d;
      for (long long h = at.h_count; h > 0; --h, line += at.h_in, panel += at.h_panel) {
        U index[V];
        each<V>([&](auto v) __attribute__((always_inline)) { index[v.value] = chunk.index[v.value]; });
        const float* taps = panel;
#pragma GCC unroll 1
        for (int c = 0; c < M::kSteps; c += M::kAtOnce, taps += M::kAtOnce * kSlot) {
          F w[M::kAtOnce][kTaps][V];
          each<M::kAtOnce * kTaps * V>([&](auto k) __attribute__((always_inline)) {
            F& to = w[k.value / (kTaps * V)][k.value / V % kTaps][k.value % V];
            to = load_whole<F>(taps + k.value * L);
            hold(to);
          });
          const char* p = M::kAlike ? line + c * (M::kInner / M::kSteps) * M::kInSize : line;
          each<M::template columns<B>()>([&](auto ji) __attribute__((always_inline)) {
            constexpr int col = decltype(ji)::value;
            const char* from = p;
            p += pixel;
            hold(p);
            if constexpr (M::template used<B>(col)) {
              if (kEdge && !within(in_col + col, in_w)) return;
              F x[M::kAtOnce][V];
              M::template load<kWhole>(x, from, chunk, index);
              each<kTaps>([&](auto ti) __attribute__((always_inline)) {
                constexpr int t = decltype(ti)::value, b = M::template meets<B>(col, t);
                if constexpr (b >= 0) {
                  each<M::kAtOnce * V>([&](auto i) __attribute__((always_inline)) {
                    constexpr int a = decltype(i)::value / V, v = decltype(i)::value % V;
                    M::multiply(acc[b][v], x[a][v], w[a][t][v]);
                  });
                }
              });
            }
          });
          if constexpr (M::kChosen)
            each<V>([&](auto v) __attribute__((always_inline)) { index[v.value] += M::kNext; });
        }
      }
    }
    if constexpr (M::kJoins && C::type_out == Type::bf16 && E::kNoSteps) {
      if (kWhole && at.whole) return store_joined<kEdge>(at, acc);
    }
    each<B>([&](auto b) __attribute__((always_inline)) { M::in_order(acc[b.value]); });
    if (kWhole && !M::kBlocked && E::kNoSteps && at.whole) {
      const EpilogueArgs& e = at.args->epilogue;
      constexpr int kSize = bytes_of(C::type_out);
      char* out = static_cast<char*>(e.c) + ((at.row + at.out_col) * e.c_stride + at.o) * kSize;
      const long long stride = e.c_stride * kSize;
      if constexpr (kStreams) {
        if (at.streams) return stream_lanes<kEdge>(at, out, stride, acc);
      }
      each<B>([&](auto b) __attribute__((always_inline)) {
        char* to = out;
        out += stride;
        if (kEdge && !within(at.out_col + b.value, at.out_w)) return;
        each<V>([&](auto v) __attribute__((always_inline)) {
          store_float<L, C::type_out>(to + v.value * L * kSize, L, acc[b.value][v.value]);
        });
      });
      return;
    }
    if (!M::kBlocked && E::kNoSteps && at.args->epilogue.plain) return store_lanes<kEdge>(at, acc);
    alignas(64) unsigned sums[B][V][L];
    each<B * V>([&](auto i) __attribute__((always_inline)) {
      store_whole(sums[i.value / V][i.value % V], as_bits<L>(acc[i.value / V][i.value % V]));
    });
    if constexpr (M::kBlocked) {
      finish_blocks(at, sums);
    } else {
      finish(at, sums);
    }
  }

  // Sums of bf16 that go to memory as they are.
  template <bool kEdge>
  static TSR_INLINE void store_joined(const Job& at, const F (&acc)[B][V]) {
    const EpilogueArgs& e = at.args->epilogue;
    char* out = static_cast<char*>(e.c) + ((at.row + at.out_col) * e.c_stride + at.o) * 2;
    each<B>([&](auto b) __attribute__((always_inline)) {
      char* to = out;
      out += e.c_stride * 2;
      if (kEdge && !within(at.out_col + b.value, at.out_w)) return;
      each<V / 2>([&](auto v) __attribute__((always_inline)) {
        const U words = M::join(acc[b.value][2 * v.value], acc[b.value][2 * v.value + 1]);
        if constexpr (kStreams) {
          if (at.streams) return stream_whole(to + v.value * L * 4, words);
        }
        store_whole(to + v.value * L * 4, words);
      });
    });
  }

  template <bool kEdge>
  static TSR_INLINE void stream_lanes(const Job& at, char* out, long long stride, const F (&acc)[B][V]) {
    constexpr int kSize = bytes_of(C::type_out);
    each<B>([&](auto b) __attribute__((always_inline)) {
      char* to = out;
      out += stride;
      if (kEdge && !within(at.out_col + b.value, at.out_w)) return;
      each<V>([&](auto v) __attribute__((always_inline)) {
        const F sum = acc[b.value][v.value];
        if constexpr (C::type_out == Type::f32) {
          stream_whole(to + v.value * L * kSize, sum);
        } else {
          static_assert(C::type_out == Type::bf16);
          stream_whole(to + v.value * L * kSize, float_to_bf16<L>(sum));
        }
      });
    });
  }

  // Sums that go to memory as they are, of the lanes that hold channels.
  template <bool kEdge>
  static TSR_INLINE void store_lanes(const Job& at, const F (&acc)[B][V]) {
    const EpilogueArgs& e = at.args->epilogue;
    constexpr int kSize = bytes_of(C::type_out);
    char* out = static_cast<char*>(e.c) + ((at.row + at.out_col) * e.c_stride + at.o) * kSize;
    const long long stride = e.c_stride * kSize;
    int live[V];
    each<V>([&](auto v) __attribute__((always_inline)) {
      const long long rest = at.args->out_channels - at.o - v.value * M::kUsed;
      live[v.value] = static_cast<int>(rest > M::kUsed ? M::kUsed : rest > 0 ? rest : 0);
    });
    each<B>([&](auto b) __attribute__((always_inline)) {
      char* to = out;
      out += stride;
      if (kEdge && !within(at.out_col + b.value, at.out_w)) return;
      each<V>([&](auto v) __attribute__((always_inline)) {
        store_float<L, C::type_out>(to + v.value * M::kUsed * kSize, live[v.value], acc[b.value][v.value]);
      });
    });
  }

  // The pixels of a block's line lie one after the other in memory.
  static __attribute__((noinline)) void finish_blocks(const Job& at, const unsigned (*sums)[V][L]) {
    const GroupsArgs& args = *at.args;
    const GroupsBlocks& blocks = args.blocks;
    constexpr int kWidth = C::block_w;
    for (int b = 0; b < B && at.out_col + b < at.out_w; ++b) {
      const long long left = blocks.origin_w + (at.out_col + b) * kWidth, right = blocks.result_w - left;
      const int from = left < 0 ? static_cast<int>(-left) : 0,
                to = right < kWidth ? static_cast<int>(right) : kWidth;
      if (from >= to) continue;
      const int live = (to - from) * M::kOuter;
      for (int h = 0; h < C::block_h; ++h) {
        const long long line = at.block_line + h;
        if (!within(line, blocks.result_h)) continue;
        E::store(load_part(sums[b][0] + (h * kWidth + from) * M::kOuter, live, U{}), args.epilogue,
                 (at.image * blocks.result_h + line) * blocks.result_w + left + from, 0, live);
      }
    }
  }

  static __attribute__((noinline)) void finish(const Job& at, const unsigned (*sums)[V][L]) {
    const GroupsArgs& args = *at.args;
    for (int b = 0; b < B; ++b) {
      const long long col = at.out_col + b;
      if (!within(col, at.out_w)) continue;
      for (int v = 0; v < V; ++v) {
        const long long o = at.o + v * M::kUsed, end = least(o + M::kUsed, args.out_channels);
        const long long from = o > at.fresh ? o : at.fresh;
        if (from >= end) continue;
        E::store(load_part(sums[b][v] + (from - o), static_cast<int>(end - from), U{}), args.epilogue,
                 at.row + col, from, static_cast<int>(end - from));
      }
    }
  }

  static TSR_INLINE void tiles(Job& job, long long q, long long end) {
    const long long pad = job.args->pad_w;
    for (; q < end; q += B / kUnit) {
      job.next_in.fetch();
      job.next_out.fetch();
      job.in_col = M::kBackward ? q + M::kFirst : q * M::kStride - pad;
      job.out_col = M::kBackward ? q * kUnit - pad : q;
      const bool inside = job.in_col >= 0 && job.in_col + M::template columns<B>() <= job.in_w &&
                          job.out_col >= 0 && job.out_col + B <= job.out_w;
      if (!job.reads_whole) {
        tile<true, false>(job);
      } else if (inside) {
        tile<false, true>(job);
      } else {
        tile<true, true>(job);
      }
    }
  }

  static TSR_INLINE void lines(const GroupsArgs& args) {
    Job job;
    job.args = &args;
    job.pixel = args.in_channels * M::kInSize;
    job.in_w = args.in_w;
    job.out_w = args.out_w;
    const long long line = job.in_w * job.pixel, plane = args.in_h * line, image = args.in_d * plane;
    const long long line_floats = M::kSteps * kSlot, chunk_floats = args.taps_d * args.taps_h * line_floats;
    job.d_in = args.at_step_d * plane;
    job.h_in = args.at_step_h * line;
    job.d_panel = args.tap_step_d * args.taps_h * line_floats;
    job.h_panel = args.tap_step_h * line_floats;
    // Backward tiles begin where the first tap of a stride does, counted from the padding.
    const long long first = M::kBackward ? args.pad_w / kUnit : 0;
    const long long end = M::kBackward ? (args.pad_w + args.out_w + kUnit - 1) / kUnit : args.out_w;
    for (long long l0 = args.line_begin, l1; l0 < args.line_end; l0 = l1) {
      l1 = groups_block_end(args, l0, least(l0 + args.line_block, args.line_end));
      const long long l2 =
          l1 < args.line_end ? groups_block_end(args, l1, least(l1 + args.line_block, args.line_end)) : l1;
      const long long turns =
          (l1 - l0) * (args.chunk_end - args.chunk_begin) * ((end - first) / (B / kUnit) + 1);
      job.next_in = groups_next_lines<M::kInSize>(args, l1, l2, turns);
      if (args.fetch && !M::kBlocked && !kStreams) {
        const long long line_c = args.out_w * args.epilogue.c_stride * bytes_of(C::type_out);
        const char* c = static_cast<const char*>(args.epilogue.c) + GroupsLine(args, l1).line() * line_c;
        job.next_out = Stream<true>(c, c + (l2 - l1) * line_c, turns);
      }
      for (long long q = args.chunk_begin; q < args.chunk_end; ++q) {
        const Chunk chunk(args, q);
        job.chunk = &chunk;
        job.o = M::first_channel(args, q);
        job.fresh = q * M::kChannels;
        job.whole = args.epilogue.plain && M::kUsed == L && job.o + M::kChannels <= args.out_channels;
        if constexpr (kStreams) {
          constexpr int kSize = bytes_of(C::type_out);
          job.streams = (reinterpret_cast<unsigned long long>(args.epilogue.c) |
                         args.epilogue.c_stride * kSize | job.o * kSize) %
                            64 ==
                        0;
        }
        const char* in = static_cast<const char*>(args.in) + M::start(chunk);
        const float* panel = args.panels + q * chunk_floats;
        for (long long t0 = first, t1; t0 < end; t0 = t1) {
          t1 = least(t0 + args.tile_block * (B / kUnit), end);
          GroupsLine at(args, l0);
          for (long long l = l0; l < l1; ++l, at.next()) {
            const GroupsAxis axis_d = at.axis_d(), axis_h = at.axis_h();
            job.in = in + at.image * image + axis_d.at * plane + axis_h.at * line;
            job.panel = panel + (axis_d.first * args.taps_h + axis_h.first) * line_floats;
            job.d_count =
                args.epilogue.alpha == 0.0f ? 0 : axis_d.count;  // a zero alpha hides what operands hold
            job.h_count = axis_h.count;
            job.reads_whole = at.lines_behind(chunk.beyond);
            job.row = at.line() * args.out_w;
            job.image = at.plane();
            job.block_line = args.blocks.origin_h + at.h * C::block_h;
            tiles(job, t0, t1);
          }
        }
      }
    }
    if constexpr (kStreams) asm volatile("sfence" ::: "memory");
  }

  static TSR_INLINE void run(const GroupsArgs& args) {
    args.phase == GroupsPhase::lines ? lines(args) : GroupsWeights<C>::run(args);
  }
};

}  // namespace tsr
