// cpu_groups for the gradient of the filter: the lines of dY are walked with those of X that each tap meets,
// and the sums of as many lines of the filter as fit stay in registers.
#pragma once

#include "cpu/groups_math.h"

namespace tsr {

template <class C>
struct GroupsGradient {
  using M = GroupsMath<C>;
  using E = typename M::E;
  using F = typename M::F;
  using U = typename M::U;
  using Chunk = typename M::Chunk;
  static constexpr int L = M::L, V = M::V, kTaps = M::kTaps;
  static constexpr int B = C::tile_m;  // columns of dY in registers
  static constexpr long long kSlot = M::kSlot;
  // Sums that are kept at a time: of channels of the operand read, where all of a vector's lanes take the
  // same one, and then of lines of the filter.
#ifdef __AVX512VL__
  static constexpr int kRegisters = 31;
#else
  static constexpr int kRegisters = 15;
#endif
  static constexpr int kSums = (kRegisters - B * V - V) / (kTaps * V) > 0
                                   ? (kRegisters - B * V - V) / (kTaps * V)
                                   : 1;
  static constexpr int kChannels = [] {
    int most = M::kSpread ? kSums : 1;
    while (M::kInner % most != 0) --most;
    return most;
  }();
  static constexpr int kFit = kSums / kChannels;
  static constexpr int kBands = (C::taps_h + kFit - 1) / kFit;
  static constexpr int kBand = (C::taps_h + kBands - 1) / kBands;

  // dY: the lanes as they lie.
  struct OutLanes {
    long long base;
    Part part[V];
    long long beyond = 0;  // elements that whole vectors read behind the last channel of a pixel
    TSR_INLINE OutLanes(const GroupsArgs& args, long long chunk)
        : base(M::first_channel(args, chunk) * M::kOtherSize) {
      each<V>([&](auto v) __attribute__((always_inline)) {
        constexpr int kMost = M::kPairs ? 2 * L : M::kUsed, kRead = M::kPairs ? 2 * L : L;
        const long long live = args.out_channels - (M::first_channel(args, chunk) + v.value * M::kUsed);
        if (!M::kPairs || v.value % 2 == 0) beyond = most(beyond, kRead - live);
        part[v.value] = Part(live > kMost ? kMost : live > 0 ? live : 0);
      });
    }
  };
  template <bool kWhole>
  static TSR_INLINE void load_out(F (&y)[V], const char* p, const OutLanes& lanes) {
    each<V>([&](auto vi) __attribute__((always_inline)) {
      constexpr int v = decltype(vi)::value;
      if constexpr (!M::kPairs) {
        y[v] = M::template floats<M::kOther, kWhole>(p + v * M::kUsed * M::kOtherSize, lanes.part[v]);
        hold(y[v]);
      } else if constexpr (v % 2 == 0) {
        const char* from = p + v * L * M::kOtherSize;
        const U u = kWhole ? load_whole<U>(from) : load_copy16<U>(from, lanes.part[v]);
        M::split(as_float<L>(u), y[v], y[v + 1]);
      }
    });
  }

  struct Job {
    const GroupsArgs* args;
    const Chunk* chunk;
    const OutLanes* out;
    U index[V];
    long long l0, l1;  // lines
    long long tap_d;
    int tap_h;    // first of the band
    int channel;  // of a group of the operand read; the first one
    float* sums;  // of that line of the filter, and those behind it
    Stream<false> next_in, next_out;
  };

  template <bool kEdge, bool kWhole>
  static TSR_INLINE void step(F (&acc)[kBand][kChannels][kTaps][V], const Job& at, const char* out,
                              long long out_left, const char* const (&in)[kBand], const bool (&live)[kBand],
                              long long in_col) {
    const GroupsArgs& args = *at.args;
    const long long pixel = args.in_channels * M::kInSize, out_pixel = args.out_channels * M::kOtherSize;
    F y[B][V];
    each<B>([&](auto b) __attribute__((always_inline)) {
      const char* from = out;
      out += out_pixel;
      hold(out);
      if (kEdge && b.value >= out_left) {
        each<V>([&](auto v) __attribute__((always_inline)) { y[b.value][v.value] = F{}; });
      } else {
        load_out<kWhole>(y[b.value], from, *at.out);
      }
    });
    each<kBand>([&](auto ri) __attribute__((always_inline)) {
      constexpr int r = decltype(ri)::value;
      if (!live[r]) return;
      const char* p = in[r];
      each<M::template columns<B>()>([&](auto ji) __attribute__((always_inline)) {
        constexpr int col = decltype(ji)::value;
        const char* from = p;
        p += pixel;
        hold(p);
        if constexpr (M::template used<B>(col)) {
          if (kEdge && !within(in_col + col, args.in_w)) return;
          const auto take = [&](auto ci, const F(&x)[V]) __attribute__((always_inline)) {
            each<kTaps>([&](auto ti) __attribute__((always_inline)) {
              constexpr int t = decltype(ti)::value, b = M::template meets<B>(col, t);
              if constexpr (b >= 0) {
                each<V>([&](auto v) __attribute__((always_inline)) {
                  acc[r][ci.value][t][v.value] += x[v.value] * y[b][v.value];
                });
              }
            });
          };
          F x[2][V];
          if constexpr (M::kSpread && M::kIn == Type::bf16 && kChannels % 2 == 0) {
            each<kChannels / 2>([&](auto ci) __attribute__((always_inline)) {
              constexpr int c = 2 * decltype(ci)::value;
              M::spread_two(x, from + c * M::kInSize, *at.chunk);
              take(Int<c>(), x[0]);
              take(Int<c + 1>(), x[1]);
            });
          } else {
            each<kChannels>([&](auto ci) __attribute__((always_inline)) {
              M::template load<kWhole>(x, from + ci.value * M::kInSize, *at.chunk, at.index);
              take(ci, x[0]);
            });
          }
        }
      });
    });
  }

  template <bool kWhole>
  static __attribute__((noinline)) void band(Job& at) {
    const GroupsArgs& args = *at.args;
    const long long pixel = args.in_channels * M::kInSize, out_pixel = args.out_channels * M::kOtherSize;
    F acc[kBand][kChannels][kTaps][V];
    each<kBand * kChannels * kTaps * V>([&](auto i) __attribute__((always_inline)) {
      acc[i.value / (kChannels * kTaps * V)][i.value / (kTaps * V) % kChannels][i.value / V % kTaps]
         [i.value % V] = F{};
    });
    GroupsLine line(args, at.l0);
    for (long long l = at.l0; l < at.l1; ++l, line.next()) {
      at.next_in.fetch();
      at.next_out.fetch();
      const GroupsAxis axis_d = line.axis_d(), axis_h = line.axis_h();
      const long long in_d = axis_d.at + (at.tap_d - axis_d.first) * args.at_step_d;
      const bool depth = at.tap_d >= axis_d.first && at.tap_d < axis_d.first + axis_d.count;
      const char* in[kBand];
      bool live[kBand], any = false;
      each<kBand>([&](auto r) __attribute__((always_inline)) {
        const int tap = at.tap_h + r.value;
        live[r.value] = depth && tap >= axis_h.first && tap < axis_h.first + axis_h.count;
        any |= live[r.value];
        const long long in_h = axis_h.at + (tap - axis_h.first) * static_cast<long long>(args.at_step_h);
        in[r.value] =
            static_cast<const char*>(args.in) +
            (((line.image * args.in_d + in_d) * args.in_h + in_h) * args.in_w - args.pad_w) * pixel +
            (M::kSpread ? at.channel * M::kInSize : 0);
      });
      if (any) {
        const char* out =
            static_cast<const char*>(args.other) + line.line() * args.out_w * out_pixel + at.out->base;
        long long in_col = -args.pad_w;
        for (long long o = 0; o < args.out_w; o += B, in_col += B * M::kStride, out += B * out_pixel) {
          const bool inside =
              in_col >= 0 && in_col + M::template columns<B>() <= args.in_w && o + B <= args.out_w;
          if (kWhole && inside) {
            step<false, true>(acc, at, out, B, in, live, in_col);
          } else {
            step<true, kWhole>(acc, at, out, args.out_w - o, in, live, in_col);
          }
          each<kBand>([&](auto r) __attribute__((always_inline)) { in[r.value] += B * M::kStride * pixel; });
        }
      }
    }
    each<kBand>([&](auto ri) __attribute__((always_inline)) {
      constexpr int r = decltype(ri)::value;
      if (at.tap_h + r < C::taps_h) {
        float* to = at.sums + r * kSlot * M::kInner;
        each<kChannels * kTaps * V>([&](auto k) __attribute__((always_inline)) {
          store_whole(to + k.value * L, load_whole<F>(to + k.value * L) +
                                            acc[r][k.value / (kTaps * V)][k.value / V % kTaps][k.value % V]);
        });
      }
    });
  }

  // Whether whole vectors may be read along this line of dY.
  static TSR_INLINE bool lines_behind(const GroupsArgs& args, long long number, const Chunk& chunk,
                                      const OutLanes& out) {
    const GroupsLine line(args, number);
    return args.out_channels * (args.out_pixels - (line.line() + 1) * args.out_w) >= out.beyond &&
           line.lines_behind(chunk.beyond);
  }

  static TSR_INLINE void lines(const GroupsArgs& args) {
    Job job;
    job.args = &args;
    const long long chunk_floats = args.taps_d * args.taps_h * M::kInner * kSlot;
    for (long long q = args.chunk_begin; q < args.chunk_end; ++q) {
      float* sums = args.panels + q * chunk_floats;
      for (long long i = 0; i < chunk_floats; i += L) store_whole(sums + i, F{});
    }
    if (args.epilogue.alpha == 0.0f) return;  // which hides what operands hold
    // Of the lines up to which all have enough behind them in both operands, for the last chunk and so for
    // all. Any line may meet the last one of X: taps that lie apart leave the image one by one.
    const Chunk last(args, args.chunk_end - 1);
    const OutLanes out_last(args, args.chunk_end - 1);
    long long whole_end = args.line_begin;
    while (whole_end < args.line_end && lines_behind(args, whole_end, last, out_last)) ++whole_end;
    for (job.l0 = args.line_begin; job.l0 < args.line_end; job.l0 = job.l1) {
      job.l1 = groups_block_end(
          args, job.l0, least(job.l0 + args.line_block, job.l0 < whole_end ? whole_end : args.line_end));
      const long long l2 =
          job.l1 < args.line_end
              ? groups_block_end(args, job.l1, least(job.l1 + args.line_block, args.line_end))
              : job.l1;
      const long long turns = (job.l1 - job.l0) * (args.chunk_end - args.chunk_begin) * args.taps_d * kBands *
                              (M::kInner / kChannels);
      job.next_in = groups_next_lines<M::kInSize>(args, job.l1, l2, turns);
      if (args.fetch) {
        const long long line = args.out_w * args.out_channels * M::kOtherSize;
        const char* dy = static_cast<const char*>(args.other) + GroupsLine(args, job.l1).line() * line;
        job.next_out = Stream<false>(dy, dy + (l2 - job.l1) * line, turns);
      }
      for (long long q = args.chunk_begin; q < args.chunk_end; ++q) {
        const Chunk chunk(args, q);
        const OutLanes out(args, q);
        job.chunk = &chunk;
        job.out = &out;
        const bool whole = (chunk.beyond <= 0 && out.beyond <= 0) || job.l1 <= whole_end;
        for (job.tap_d = 0; job.tap_d < args.taps_d; ++job.tap_d) {
          for (job.tap_h = 0; job.tap_h < C::taps_h; job.tap_h += kBand) {
            each<V>([&](auto v)
                        __attribute__((always_inline)) { job.index[v.value] = chunk.index[v.value]; });
            job.sums =
                args.panels + q * chunk_floats + (job.tap_d * args.taps_h + job.tap_h) * M::kInner * kSlot;
            // Not unrolled: one body serves all input channels.
#pragma GCC unroll 1
            for (job.channel = 0; job.channel < M::kInner;
                 job.channel += kChannels, job.sums += kChannels * kSlot) {
              whole ? band<true>(job) : band<false>(job);
              each<V>([&](auto v) __attribute__((always_inline)) { job.index[v.value] += M::kNext; });
            }
          }
        }
      }
    }
  }

  // Sums, turned, to dW: one row per output channel, taps x inner.
  static __attribute__((noinline)) void finish(const GroupsArgs& args) {
    const long long taps = args.taps_d * args.taps_h * kTaps, length = taps * M::kInner;
    for (long long q = args.chunk_begin; q < args.chunk_end; ++q) {
      const float* sums = args.panels + q * length * C::tile_n;
      for (int v = 0; v < V; ++v) {
        long long c = 0, tap_line = 0, tap_w = 0;
        for (long long e = 0; e < length; e += L) {
          alignas(64) unsigned turned[L][L];
          for (int i = 0; i < L; ++i) {
            if (e + i >= length) break;
            const float* from = sums + ((tap_line * M::kInner + c) * kTaps + tap_w) * C::tile_n + v * L;
            F sum = load_whole<F>(from);
            for (int p = 1; p < args.parts; ++p) sum += load_whole<F>(from + p * args.panel_part);
            store_whole(turned[i], sum);
            if (++c < M::kInner) continue;
            c = 0;
            if (++tap_w == kTaps) tap_w = 0, ++tap_line;
          }
          U block[L];
          TSR_UNROLL for (int i = 0; i < L; ++i) block[i] = load_whole<U>(turned[i]);
          transpose<L>(block);
          TSR_UNROLL for (int i = 0; i < L; ++i) store_whole(turned[i], block[i]);
          const int live = static_cast<int>(least(L, length - e));
          for (int i = 0; i < L; ++i) {
            const long long o = M::first_channel(args, q) + M::channel(v, i);
            if (i < M::kUsed && o >= q * M::kChannels && o < args.out_channels)
              E::store(load_whole<U>(turned[i]), args.epilogue, o, e, live);
          }
        }
      }
    }
  }

  static TSR_INLINE void run(const GroupsArgs& args) {
    args.phase == GroupsPhase::lines ? lines(args) : finish(args);
  }
};

}  // namespace tsr
