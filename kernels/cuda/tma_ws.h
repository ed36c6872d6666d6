// GEMM for sm_90a: one producer warp fills a ring of shared-memory stages by TMA, warpgroups of consumers multiply them
// with wgmma, mbarriers between the two. Blocks are persistent and walk over tiles of C.
//
// The kernel sees rows x cols, C = A B; with swap_ab these are the problem's n x m and the product is written transposed.
// A team is the warpgroups that share a tile: the cooperative schedule has one team, ping-pong two that alternate, so
// that one multiplies while the other stores. Blocks of a cluster share the stages of the operand they have in common:
// each loads a part of it and multicasts it.
#pragma once

#include "cuda/convert.h"
#include "cuda/ptx.h"
#include "cuda/tma_ws_args.h"
#include "cuda/wgmma.h"
#include "gpu/epilogue.h"

template <class C>
struct TmaWs {
  typedef typename BitsOf<bytes_of(C::c_type)>::type Out;

  static constexpr int kElement = bytes_of(C::a_type);
  static constexpr int kSwizzled = 128 / kElement;  // elements of a swizzled shared-memory row
  static constexpr int kBlockM = C::block_m, kBlockN = C::block_n, kBlockK = C::block_k, kStages = C::stages;
  static constexpr int kCluster = C::cluster_m * C::cluster_n;
  static constexpr int kTeams = C::wave_groups, kTeamGroups = C::wave_m / 4, kGroups = kTeams * kTeamGroups;
  static constexpr int kThreads = 128 * (1 + kGroups);
  static constexpr int kGroupRows = kBlockM / kTeamGroups, kBlocksM = kGroupRows / 64;
  static constexpr int kRowsB = C::b_k_major ? kBlockN : (kBlockN + 63) / 64 * 64;
  static constexpr int kBytesA = kBlockM * kBlockK * kElement, kBytesB = kRowsB * kBlockK * kElement;
  // Parts of A and B that the blocks of a cluster load for one another; 1 where the tile does not divide.
  static constexpr int kPartsA = kBlockM % (C::cluster_n * (C::a_k_major ? 8 : 64)) ? 1 : C::cluster_n;
  static constexpr int kPartsB = kRowsB % (C::cluster_m * (C::b_k_major ? 8 : 64)) ? 1 : C::cluster_m;

  // C is staged in slices of 64 rows x kSlice columns.
  static constexpr int kOut = bytes_of(C::c_type);
  static constexpr int slice_columns() {
    int s = C::swap_ab || kOut == 1 ? 64 : 128 / kOut;
    while (kBlockN % s) s /= 2;
    return s;
  }
  static constexpr int kSlice = slice_columns();
  static constexpr int kInner = !C::swap_ab ? kSlice : kOut == 4 ? 32 : 64;  // elements of a staged row
  static constexpr int kInnerBytes = kInner * kOut;
  static constexpr int kSlices = kBlockN / kSlice;
  static constexpr int kSliceBytes = 64 * kSlice * kOut;
  static constexpr int kBuffers = kSlices * kBlocksM > 1 ? 2 : 1;
  static constexpr int kSharedC = (kGroups * kBuffers * kSliceBytes + 1023) / 1024 * 1024;
  static constexpr int kShared = kStages * (kBytesA + kBytesB) + kSharedC + 16 * kStages + 16;

  static constexpr bool kInteger = C::a_type == Type::i8 || C::a_type == Type::u8;
  template <bool, class T, class F> struct Pick { typedef T type; };
  template <class T, class F> struct Pick<false, T, F> { typedef F type; };
  typedef typename Pick<kInteger, int, float>::type Acc;
  static constexpr int kAccs = kBlockN / 2;

  // Named barriers: one for each warpgroup, one for each team, one for each team's turn.
  static constexpr int kGroupBarrier = 1, kTeamBarrier = kGroupBarrier + kGroups, kTurnBarrier = kTeamBarrier + kTeams;

  static_assert(kTeams == 1 || (kTeams == 2 && kTeamGroups == 1), "two teams of one warpgroup, or one team");
  static_assert(kShared <= C::shared_bytes, "the launch gives less shared memory than the kernel lays out");
  static_assert(kBlockM % (64 * kTeamGroups) == 0 && kBlockN % 8 == 0 && kBlockK % kSwizzled == 0);
  static_assert(kElement == bytes_of(C::b_type));
  static_assert(kElement == 2 || (C::a_k_major && C::b_k_major), "only 16-bit operands may lie along m or n");

  struct Work {
    int m, n, batch;       // first row and column
    int k_begin, k_end;    // in steps
    int part, block;       // of k; index of the (block, batch)
  };

  static __device__ __forceinline__ int work_count(const TmaWsArgs& args) {
    int parts = C::split_k > 1 ? (args.k_steps + args.split_steps - 1) / args.split_steps : 1;
    return args.tiles_m * args.tiles_n * args.batches * parts;
  }

  // The index-th unit of work of this cluster. Tiles go in bands of `swizzle` columns (rows with raster 0) so that the
  // blocks running at one time cover a compact piece of C and share their operands in L2.
  static __device__ __forceinline__ Work work(int index, int rank, const TmaWsArgs& args) {
    Work w;
    int tiles = args.tiles_m * args.tiles_n;
    int outer = index / tiles, tile = index - outer * tiles;
    w.batch = outer;
    w.part = 0;
    w.k_begin = 0;
    w.k_end = args.k_steps;
    if constexpr (C::split_k > 1) {
      w.part = outer / args.batches;
      w.batch = outer - w.part * args.batches;
      w.k_begin = w.part * args.split_steps;
      w.k_end = min(args.k_steps, w.k_begin + args.split_steps);
    }
    int along = args.raster ? args.tiles_m : args.tiles_n, across = args.raster ? args.tiles_n : args.tiles_m;
    int band = tile / (args.swizzle * along), in_band = tile - band * args.swizzle * along;
    int width = min(args.swizzle, across - band * args.swizzle);
    int line = in_band / width, cross = band * args.swizzle + in_band - line * width;
    int m = (args.raster ? line : cross) * C::cluster_m + rank % C::cluster_m;
    int n = (args.raster ? cross : line) * C::cluster_n + rank / C::cluster_m;
    w.m = m * kBlockM;
    w.n = n * kBlockN;
    w.block = (w.batch * args.tiles_m * C::cluster_m + m) * (args.tiles_n * C::cluster_n) + n;
    return w;
  }

  struct Ring {
    int slot = 0;
    u32 phase = 0;
    __device__ __forceinline__ void advance() {
      if (++slot == kStages) slot = 0, phase ^= 1;
    }
    __device__ __forceinline__ void skip(int steps) {
      int at = slot + steps;
      phase ^= (at / kStages) & 1;
      slot = at % kStages;
    }
  };

  struct Shared {
    u32 a, b, c, full, empty, flag;
    __device__ __forceinline__ explicit Shared(u32 base)
        : a(base), b(a + kStages * kBytesA), c(b + kStages * kBytesB), full(c + kSharedC), empty(full + 8 * kStages),
          flag(empty + 8 * kStages) {}
  };

  static __device__ __forceinline__ void load_box(u32 to, const TensorMap* map, u32 bar, u16 mask, int x, int y, int z,
                                                  bool multicast) {
    if (multicast) {
      ptx::tma_load_multicast(to, map, bar, mask, x, y, z);
    } else {
      ptx::tma_load(to, map, bar, x, y, z);
    }
  }

  // One operand of one stage: part `part` of kParts of a tile of kRows rows (or columns) from `first`.
  template <bool kKMajor, int kRows, int kParts>
  static __device__ __forceinline__ void load(u32 to, const TensorMap* map, u32 bar, int first, int k, int batch,
                                              int part, u16 mask) {
    constexpr int kShare = kRows / kParts;
    if constexpr (kKMajor) {
#pragma unroll
      for (int j = 0; j < kBlockK / kSwizzled; ++j)
        load_box(to + (j * kRows + part * kShare) * 128, map, bar, mask, k + j * kSwizzled, first + part * kShare,
                 batch, kParts > 1);
    } else {
#pragma unroll
      for (int i = 0; i < kShare / 64; ++i)
        load_box(to + (part * (kShare / 64) + i) * kBlockK * 128, map, bar, mask, first + part * kShare + i * 64, k,
                 batch, kParts > 1);
    }
  }

  static __device__ __forceinline__ void produce(const TensorMap* a, const TensorMap* b, const TmaWsArgs& args,
                                                 const Shared& s, int rank) {
    int rank_m = rank % C::cluster_m, rank_n = rank / C::cluster_m;
    u16 mask_a = 0, mask_b = 0;
    for (int j = 0; j < C::cluster_n; ++j) mask_a |= 1 << (rank_m + j * C::cluster_m);
    for (int i = 0; i < C::cluster_m; ++i) mask_b |= 1 << (i + rank_n * C::cluster_m);

    Ring ring;
    int count = work_count(args);
#pragma unroll 1
    for (int t = blockIdx.x / kCluster; t < count; t += gridDim.x / kCluster) {
      Work w = work(t, rank, args);
#pragma unroll 1
      for (int k = w.k_begin; k < w.k_end; ++k) {
        ptx::mbarrier_wait(s.empty + 8 * ring.slot, ring.phase ^ 1);
        u32 bar = s.full + 8 * ring.slot;
        ptx::mbarrier_expect(bar, kBytesA + kBytesB);
        load<C::a_k_major, kBlockM, kPartsA>(s.a + ring.slot * kBytesA, a, bar, w.m, k * kBlockK, w.batch, rank_n,
                                             mask_a);
        load<C::b_k_major, kRowsB, kPartsB>(s.b + ring.slot * kBytesB, b, bar, w.n, k * kBlockK, w.batch, rank_m,
                                            mask_b);
        ring.advance();
      }
    }
    ptx::let_next_kernel_start();
    // A block must not end while another of its cluster can still arrive on its barriers.
    if constexpr (kCluster > 1) {
      for (int i = 0; i < kStages; ++i) {
        ptx::mbarrier_wait(s.empty + 8 * ring.slot, ring.phase ^ 1);
        ring.advance();
      }
    }
  }

  // The low half of an operand's descriptor; only the address (in 16-byte units, without the block's place in its cluster)
  // varies. 128-byte swizzle. K-major: 8 rows of 128 bytes each 1024 bytes. Otherwise 8 k-rows of 64 elements each
  // 1024 bytes, and block_k of them for each 64 elements.
  template <bool kKMajor>
  static __device__ __forceinline__ u32 descriptor(u32 address) {
    return (address & 0x3ffff) >> 4 | (kKMajor ? 1u : kBlockK * 128u / 16) << 16;
  }
  static __device__ __forceinline__ u64 whole(u32 low) { return (1ull << 62 | static_cast<u64>(1024 / 16) << 32) | low; }
  // 16-byte units from the start of a tile of kRows to its j-th 32-byte (16-row) step of k.
  template <bool kKMajor, int kRows>
  static constexpr int k_offset(int j) {
    return kKMajor ? (j / 4 * kRows * 128 + j % 4 * 32) / 16 : j * 16 * 128 / 16;
  }
  // From the start of A to its i-th 64 rows.
  static constexpr int row_offset(int i) { return (C::a_k_major ? i * 64 * 128 : i * kBlockK * 128) / 16; }

  static __device__ __forceinline__ void release(u32 empty, int lane) {
    if constexpr (kCluster == 1) {
      if (lane == 0) ptx::mbarrier_arrive(empty);
    } else {
      if (lane < kCluster) ptx::mbarrier_arrive_remote(empty, lane);
    }
  }

  static __device__ __forceinline__ void multiply(Acc (&acc)[kBlocksM][kAccs], const Work& w, const Shared& s,
                                                  Ring& ring, int team, int group, int lane) {
    // Teams multiply in turn. A stage's barrier tells only the parity of its use: a team that waited for a use to come
    // while the one before is still due would pass at once.
    if constexpr (kTeams > 1) ptx::named_barrier(kTurnBarrier + team, 256);
    u32 previous = 0;
    u32 base_a = descriptor<C::a_k_major>(s.a) + row_offset(group * kBlocksM);
    u32 base_b = descriptor<C::b_k_major>(s.b);
#pragma unroll 1
    for (int k = w.k_begin; k < w.k_end; ++k) {
      ptx::mbarrier_wait(s.full + 8 * ring.slot, ring.phase);
      u32 desc_a = base_a + ring.slot * (kBytesA / 16);
      u32 desc_b = base_b + ring.slot * (kBytesB / 16);
      ptx::wgmma_fence();
#pragma unroll
      for (int j = 0; j < kBlockK * kElement / 32; ++j) {
#pragma unroll
        for (int i = 0; i < kBlocksM; ++i) {
          Wgmma<kBlockN>::template run<C::a_type, C::b_type, !C::a_k_major, !C::b_k_major>(
              acc[i], whole(desc_a + row_offset(i) + k_offset<C::a_k_major, kBlockM>(j)),
              whole(desc_b + k_offset<C::b_k_major, kRowsB>(j)), j > 0 || k > w.k_begin);
        }
      }
      ptx::wgmma_commit();
      // The step before this one is done with its stage once only this one is in flight.
      ptx::wgmma_wait<1>();
      if (previous) release(previous, lane);
      previous = s.empty + 8 * ring.slot;
      ring.advance();
    }
    if constexpr (kTeams > 1) ptx::named_barrier_arrive(kTurnBarrier + 1 - team, 256);
    ptx::wgmma_wait<0>();
    if (previous) release(previous, lane);
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i)
#pragma unroll
      for (int j = 0; j < kAccs; ++j) ptx::touch(acc[i][j]);
  }

  // Adds the parts of k in their order. True for the block that came last and holds the sum; the others are done.
  static __device__ __forceinline__ bool reduce(Acc (&acc)[kBlocksM][kAccs], const Work& w, const Shared& s,
                                                const TmaWsArgs& args, int team, int group) {
    constexpr int kVectors = kBlocksM * kAccs / 4;
    int parts = (args.k_steps + args.split_steps - 1) / args.split_steps;
    int thread = threadIdx.x % 128;
    float4* base = reinterpret_cast<float4*>(args.partials) + static_cast<i64>(w.block) * parts * (kBlockM * kBlockN / 4) +
                   group * (kVectors * 128) + thread;
    float4* mine = base + static_cast<i64>(w.part) * (kBlockM * kBlockN / 4);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      Acc* v = &acc[i * 4 / kAccs][i * 4 % kAccs];
      __stcg(mine + i * 128, make_float4(as_float(v[0]), as_float(v[1]), as_float(v[2]), as_float(v[3])));
    }
    __threadfence();
    ptx::named_barrier(kTeamBarrier + team, kTeamGroups * 128);
    u32 flag = s.flag + 4 * team;
    if (group == 0 && thread == 0) {
      unsigned seen = atomicAdd(args.arrivals + w.block, 1u);
      if (seen == parts - 1u) args.arrivals[w.block] = 0;
      ptx::store_shared(flag, static_cast<u32>(seen == parts - 1u));
      __threadfence();
    }
    ptx::named_barrier(kTeamBarrier + team, kTeamGroups * 128);
    u32 last;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(last) : "r"(flag) : "memory");
    if (!last) return false;
    __threadfence();
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      Acc* v = &acc[i * 4 / kAccs][i * 4 % kAccs];
      v[0] = v[1] = v[2] = v[3] = 0;
    }
#pragma unroll 1
    for (int p = 0; p < parts; ++p) {
      const float4* from = base + static_cast<i64>(p) * (kBlockM * kBlockN / 4);
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        Acc* v = &acc[i * 4 / kAccs][i * 4 % kAccs];
        float4 x = __ldcg(from + i * 128);
        v[0] += as_acc(x.x), v[1] += as_acc(x.y), v[2] += as_acc(x.z), v[3] += as_acc(x.w);
      }
    }
    return true;
  }
  static __device__ __forceinline__ float as_float(float x) { return x; }
  static __device__ __forceinline__ float as_float(int x) { return __int_as_float(x); }
  static __device__ __forceinline__ Acc as_acc(float x) {
    if constexpr (kInteger) {
      return __float_as_int(x);
    } else {
      return x;
    }
  }

  // Byte offset of (row, column) in a staged slice.
  static __device__ __forceinline__ u32 staged(int row, int column) {
    u32 at;
    if constexpr (C::swap_ab) {
      at = (row / kInner * kSlice + column) * kInnerBytes + row % kInner * kOut;
    } else {
      at = row * kInnerBytes + column * kOut;
    }
    constexpr u32 kMask = kInnerBytes / 16 - 1;
    return at ^ (at >> 7 & kMask) << 4;
  }

  // The output value of an accumulator; row and column are the kernel's.
  static __device__ __forceinline__ float finish(Acc acc, int row, int col, int batch, const TmaWsArgs& args) {
    float x = static_cast<float>(acc);
    if constexpr (C::scaled) x *= args.epilogue.alpha;
    if constexpr (C::beta || C::epilogue_steps > 0) {
      if (row >= args.rows || col >= args.cols) return x;
      i64 r = C::swap_ab ? col : row, c = C::swap_ab ? row : col;
      if constexpr (C::beta)
        x += args.epilogue.beta *
             to_float<C::c_type>(static_cast<const Out*>(args.c)[batch * args.c_batch_stride + r * args.c_leading + c]);
      x = apply_steps<C>(x, r, c, batch, C::swap_ab ? args.rows : args.cols, args.epilogue);
    }
    return x;
  }
  // i32 results without an epilogue stay integers.
  static constexpr bool kRaw = kInteger && C::c_type == Type::i32 && !C::scaled && !C::beta && C::epilogue_steps == 0;

  static __device__ __forceinline__ void store(Acc (&acc)[kBlocksM][kAccs], const TensorMap* map, const Work& w,
                                               const Shared& s, const TmaWsArgs& args, int consumer, int group,
                                               int& rounds) {
    int thread = threadIdx.x % 128, warp = thread / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
      int row0 = w.m + (group * kBlocksM + i) * 64;
#pragma unroll
      for (int slice = 0; slice < kSlices; ++slice) {
        u32 buffer = s.c + (consumer * kBuffers + rounds % kBuffers) * kSliceBytes;
        ++rounds;
        if (C::tma_c && thread == 0) ptx::tma_store_wait_read<kBuffers - 1>();
        ptx::named_barrier(kGroupBarrier + consumer, 128);
#pragma unroll
        for (int j = 0; j < kSlice; j += 8) {
          Acc* v = &acc[i][(slice * kSlice + j) / 2];
          int row = warp * 16 + lane / 4, col = j + lane % 4 * 2;
          if constexpr (kRaw) {
#pragma unroll
            for (int e = 0; e < 4; ++e)
              ptx::store_shared(buffer + staged(row + e / 2 * 8, col + e % 2), static_cast<u32>(v[e]));
          } else {
            float x[4];
#pragma unroll
            for (int e = 0; e < 4; ++e)
              x[e] = finish(v[e], row0 + row + e / 2 * 8, w.n + slice * kSlice + col + e % 2, w.batch, args);
            if constexpr (kOut == 2) {
              // Lane l addresses row l % 8 of matrix l / 8 (columns when transposed): upper and lower 8 rows.
              int half = lane / 8 % 2 * 8;
              u32 upper = pack2<C::c_type>(x[0], x[1]), lower = pack2<C::c_type>(x[2], x[3]);
              if constexpr (C::swap_ab) {
                ptx::stmatrix_transposed(buffer + staged(warp * 16 + half, j + lane % 8), upper, lower);
              } else {
                ptx::stmatrix(buffer + staged(warp * 16 + half + lane % 8, j), upper, lower);
              }
            } else if constexpr (kOut == 4) {
              if constexpr (C::swap_ab) {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                  ptx::store_shared(buffer + staged(row + e / 2 * 8, col + e % 2), word_of<C::c_type>(x[e]));
              } else {
#pragma unroll
                for (int h = 0; h < 2; ++h)
                  ptx::store_shared(buffer + staged(row + h * 8, col), word_of<C::c_type>(x[2 * h]),
                                    word_of<C::c_type>(x[2 * h + 1]));
              }
            } else {
#pragma unroll
              for (int h = 0; h < 2; ++h) {
                u32 pair = pack2<C::c_type>(x[2 * h], x[2 * h + 1]);
                if constexpr (C::swap_ab) {
                  ptx::store_shared(buffer + staged(row + h * 8, col), static_cast<u8>(pair));
                  ptx::store_shared(buffer + staged(row + h * 8, col + 1), static_cast<u8>(pair >> 8));
                } else {
                  ptx::store_shared(buffer + staged(row + h * 8, col), static_cast<u16>(pair));
                }
              }
            }
          }
        }
        int col0 = w.n + slice * kSlice;
        if constexpr (C::tma_c) {
          ptx::fence_async_shared();
          ptx::named_barrier(kGroupBarrier + consumer, 128);
          if (thread == 0) {
            if constexpr (C::swap_ab) {
#pragma unroll
              for (int p = 0; p < 64 / kInner; ++p)
                ptx::tma_store(map, buffer + p * kSlice * kInnerBytes, row0 + p * kInner, col0, w.batch);
            } else {
              ptx::tma_store(map, buffer, col0, row0, w.batch);
            }
            ptx::tma_store_commit();
          }
        } else {
          ptx::named_barrier(kGroupBarrier + consumer, 128);
          copy_out(buffer, row0, col0, w.batch, args, thread);
        }
      }
    }
  }

  // Where C cannot be a tensor map's (its rows do not start at multiples of 16 bytes): element by element.
  static __device__ __forceinline__ void copy_out(u32 buffer, int row0, int col0, int batch, const TmaWsArgs& args,
                                                  int thread) {
    Out* c = static_cast<Out*>(args.c) + batch * args.c_batch_stride;
    constexpr int kAcross = C::swap_ab ? 64 : kSlice;  // elements along the contiguous axis of C
#pragma unroll 4
    for (int e = thread; e < 64 * kSlice; e += 128) {
      int row = C::swap_ab ? e % kAcross : e / kAcross, col = C::swap_ab ? e / kAcross : e % kAcross;
      if (row0 + row >= args.rows || col0 + col >= args.cols) continue;
      i64 r = C::swap_ab ? col0 + col : row0 + row, x = C::swap_ab ? row0 + row : col0 + col;
      u32 from = buffer + staged(row, col), word;
      if constexpr (kOut == 4) asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
      if constexpr (kOut == 2) {
        u16 h;
        asm volatile("ld.shared.b16 %0, [%1];" : "=h"(h) : "r"(from) : "memory");
        word = h;
      }
      if constexpr (kOut == 1) asm volatile("ld.shared.u8 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
      c[r * args.c_leading + x] = static_cast<Out>(word);
    }
  }

  static __device__ __forceinline__ void consume(const TensorMap* c, const TmaWsArgs& args, const Shared& s, int rank,
                                                 int consumer) {
    int team = consumer / kTeamGroups, group = consumer % kTeamGroups, lane = threadIdx.x % 32;
    Acc acc[kBlocksM][kAccs];
    Ring ring;
    int count = work_count(args), step = gridDim.x / kCluster, rounds = 0;
    int t = blockIdx.x / kCluster;
    if constexpr (kTeams > 1) {
      if (team == 1) ptx::named_barrier_arrive(kTurnBarrier, 256);
      if (team == 1 && t < count) {
        Work other = work(t, rank, args);
        ring.skip(other.k_end - other.k_begin);
        t += step;
      }
    }
#pragma unroll 1
    for (; t < count; t += step) {
      Work w = work(t, rank, args);
      multiply(acc, w, s, ring, team, group, lane);
      bool mine = true;
      if constexpr (C::split_k > 1) mine = reduce(acc, w, s, args, team, group);
      if (mine) store(acc, c, w, s, args, consumer, group, rounds);
      if constexpr (kTeams > 1) {
        t += step;
        if (t < count) {
          Work other = work(t, rank, args);
          ring.skip(other.k_end - other.k_begin);
        }
      }
    }
    if (C::tma_c && threadIdx.x % 128 == 0) ptx::tma_store_wait_read<0>();
  }

  static __device__ __forceinline__ void run(const TensorMap* a, const TensorMap* b, const TensorMap* c,
                                             const TmaWsArgs& args) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared s(ptx::shared_address(memory));
    int rank = kCluster > 1 ? static_cast<int>(ptx::cluster_rank()) : 0;
    if (threadIdx.x == 0) {
      ptx::prefetch_map(a);
      ptx::prefetch_map(b);
      if constexpr (C::tma_c) ptx::prefetch_map(c);
      for (int i = 0; i < kStages; ++i) {
        ptx::mbarrier_init(s.full + 8 * i, 1);
        ptx::mbarrier_init(s.empty + 8 * i, kCluster * C::wave_m);
      }
      ptx::mbarrier_init_fence();
    }
    if constexpr (kCluster > 1) {
      ptx::cluster_arrive();
      ptx::cluster_wait();
    } else {
      __syncthreads();
    }
    ptx::wait_for_previous_kernel();

    // Registers move from the producer to the consumers where these want more than an even share.
    constexpr int kTight = kBlocksM * kAccs > 192;  // accumulators that leave little beside them
    constexpr int kDown = kGroups == 1 ? 0 : kGroups == 3 ? 32 : kTight ? 24 : 40;
    constexpr int kUp = kGroups == 3 ? 160 : kTight ? 240 : 232;
    if (threadIdx.x < 128) {
      if constexpr (kDown > 0) ptx::registers_down<kDown>();
      if (threadIdx.x == 0) produce(a, b, args, s, rank);
    } else {
      if constexpr (kDown > 0) ptx::registers_up<kUp>();
      // Through a shuffle, for the compiler to know that it is the same in a whole warp.
      consume(c, args, s, rank, __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128 - 1, 0));
    }
  }
};
