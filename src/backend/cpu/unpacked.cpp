#include "backend/cpu/unpacked.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/arena.h"
#include "backend/cpu/deal_out.h"
#include "backend/cpu/prepacked_b.h"
#include "backend/cpu/transpose.h"
#include "core/caches.h"
#include "core/packed_columns.h"
#include "core/tile_math.h"
#include "cpu/unpacked_abi.h"

namespace tessera {
namespace {

// A rectangle of C.
struct Piece {
  int64_t row_begin, row_end, col_begin, col_end;
};

class UnpackedKernel : public CpuKernel {
 public:
  UnpackedKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, const Problem& problem,
                 const Choice& choice)
      : CpuKernel(std::move(module), arch, problem, choice),
        a_row_bytes_(view_.a.row_stride * bytes_of(view_.a.type)),
        a_k_bytes_(view_.a.col_stride * bytes_of(view_.a.type)),
        b_k_bytes_(view_.b.row_stride * bytes_of(view_.b.type)),
        b_col_bytes_(view_.b.col_stride * bytes_of(view_.b.type)),
        prepacked_(view_, config_.tile_n, inst_.k, flips_a(), arch),
        block_k_(block_k(arch)),
        streams_(streams(arch)),
        ahead_bytes_(ahead_bytes(arch)),
        pass_(pass(arch)),
        pieces_(pieces()),
        simple_(pieces_.size() == 1 && view_.groups == 1 && config_.split_k == 1) {
    if (in_columns()) {
      b_k_bytes_ = bytes_of(view_.b.type);
      b_col_bytes_ = column_pitch(view_) * b_k_bytes_;
    } else if (in_panels()) {
      b_k_bytes_ = config_.tile_n * 4 / inst_.k;
      b_col_bytes_ = prepacked_.panel_bytes() / config_.tile_n;
    }
  }

  void run_unchecked(const Buffers& buffers) const override {
    // Filled where it will be read: what is not set is not looked at.
    tsr::UnpackedArgs args;
    set_epilogue(args.epilogue, buffers);
    args.a = buffers.a;
    args.b = buffers.b;
    args.m = view_.m;
    args.n = view_.n;
    args.k = view_.k;
    args.a_row_bytes = a_row_bytes_;
    args.a_k_bytes = a_k_bytes_;
    args.b_k_bytes = b_k_bytes_;
    args.b_col_bytes = b_col_bytes_;
    args.row_begin = 0;
    args.row_end = view_.m;
    args.col_begin = 0;
    args.col_end = view_.n;
    args.k_begin = 0;
    args.k_end = args.epilogue.alpha == 0.0f ? 0 : view_.k;  // a zero alpha hides what the operands hold
    args.sums = nullptr;
    args.parts = 0;
    args.block_k = block_k_;
    args.streams = streams_;
    args.ahead_bytes = ahead_bytes_;
    args.pass = pass_;
    if (simple_) return entry_(&args);
    if (config_.split_k > 1) return run_split_k(buffers, args);

    const int64_t count = static_cast<int64_t>(pieces_.size()), tasks = view_.groups * count;
    deal_out(tasks, worth_threads_ ? threads_ : 1, [&](int64_t t, int) {
      run_task(buffers, args, t / count, pieces_[static_cast<size_t>(t % count)]);
    });
  }

  size_t panels_bytes() const override {
    return view_.b_prepacked ? static_cast<size_t>(view_.groups * packed_group_bytes()) : 0;
  }

  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override {
    if (in_columns()) return pack_columns(static_cast<const char*>(b), static_cast<char*>(packed), ldb);
    prepacked_.pack(
        b_to_pack(ldb), b, packed, [this](const char* from, const Operand& o, int64_t n, void* to) {
          const int live = static_cast<int>(std::min<int64_t>(config_.tile_n, view_.n - n));
          panel_packer(vector_bits_)({from + n * o.col_stride * bytes_of(o.type), o.row_stride, o.col_stride,
                                      o.type, inst_.k, false},
                                     {view_.k, live, config_.tile_n, flips_a(), prepacked_.stream()}, to);
        });
  }

  size_t workspace_bytes() const override {
    return config_.split_k > 1 ? static_cast<size_t>(config_.split_k) * part_bytes() : 0;
  }

 private:
  const char* b_of(const Buffers& buffers, int64_t group) const {
    if (!view_.b_prepacked) return group_b(buffers, group);
    return static_cast<const char*>(buffers.b) + group * packed_group_bytes();
  }

  // What B is packed in, if it is.
  bool in_columns() const { return view_.b_prepacked && packs_columns(config_); }
  bool in_panels() const { return view_.b_prepacked && !packs_columns(config_); }
  int64_t packed_group_bytes() const {
    return in_columns() ? view_.n * b_col_bytes_ : prepacked_.group_bytes();
  }
  void pack_columns(const char* b, char* packed, int64_t ldb) const {
    const Operand o = b_to_pack(ldb);
    const int64_t size = b_k_bytes_, line = view_.k * size, columns = view_.groups * view_.n;
    if (line < b_col_bytes_) {
      for (int64_t i = 0; i < columns; ++i)
        std::memset(packed + i * b_col_bytes_ + line, 0, static_cast<size_t>(b_col_bytes_ - line));
    }
    if (o.row_stride != 1) {
      transpose(b, packed,
                {view_.groups, view_.k, view_.n, o.row_stride, b_col_bytes_ / size, o.group_stride,
                 packed_group_bytes() / size},
                static_cast<int>(size), threads_);
    } else {
      for (int64_t i = 0; i < columns; ++i) {
        const int64_t from = i / view_.n * o.group_stride + i % view_.n * o.col_stride;
        std::memcpy(packed + i * b_col_bytes_, b + from * size, static_cast<size_t>(line));
      }
    }
    prefer_large_pages(packed, panels_bytes());
  }

  size_t part_bytes() const { return static_cast<size_t>(view_.m * view_.n * 4); }

  // Lines of columns that cpu_direct reads side by side, so that they do not drive each other out of the
  // cache. The processor follows few long lines best, which is what counts where they come from memory; the
  // more rows meet them, the more it costs to load and store sums for each few.
  int64_t lines_at_once(const ArchSpec& arch, int64_t streamed_bytes) const {
    constexpr int64_t kFewest = 8, kMost = 32;
    const int64_t rows = config_.swap_ab ? view_.n : view_.m;
    return streamed_bytes > arch.l3.bytes / 3 ? std::clamp(2 * rows, kFewest, kMost) : kMost;
  }

  int64_t block_k(const ArchSpec& arch) const {
    if (config_.family_id() == Family::cpu_direct) {
      // Panels come one after the other: whole where few rows meet them, else as much as the first-level
      // cache keeps for the next rows.
      if (in_panels()) {
        return view_.m <= config_.tile_m ? std::numeric_limits<int32_t>::max()
                                         : arch.l1.bytes / 2 / (config_.tile_n * 4) * inst_.k;
      }
      const Operand& streamed = config_.swap_ab ? view_.a : view_.b;
      const int64_t bytes = view_.k * cols_of(view_, config_) * bytes_of(streamed.type);
      return bytes <= arch.l2.bytes / 2 || cols_of(view_, config_) <= config_.tile_n
                 ? std::numeric_limits<int32_t>::max()
                 : lines_at_once(arch, bytes);
    }
    // As much of k as lets the columns of a tile and those of the next one stay in three quarters of the
    // first-level cache; rows pass through the rest.
    const int64_t lines = 2 * config_.tile_n;
    const int64_t bytes = std::clamp<int64_t>(arch.l1.bytes * 3 / 4 / lines / 256 * 256, 512, 4096);
    return bytes / std::max(bytes_of(view_.a.type), bytes_of(view_.b.type));
  }

  // What cpu_dot streams, its lines one after another, and cpu_direct with few rows.
  int64_t streamed_bytes() const {
    if (config_.family_id() == Family::cpu_direct) return view_.k * view_.n * bytes_of(view_.b.type);
    const GemmView seen = in_columns() ? with_packed_columns(view_) : view_;
    const Operand& o = config_.swap_ab ? seen.a : seen.b;
    return o.leading() < 2 * view_.k ? o.leading() * cols_of(view_, config_) * bytes_of(o.type) : 0;
  }

  // What cpu_dot's tile of rows takes.
  int64_t row_bytes() const {
    return config_.tile_m * view_.k * bytes_of((config_.swap_ab ? view_.b : view_.a).type);
  }

  // Whether lines asked for into L1 get there while the eight KiB before them are read, and asking costs
  // nothing: L1 gives two vectors a cycle, and the last-level cache is fast.
  static bool asks_near(const ArchSpec& arch) {
    return arch.l1.bytes_per_cycle >= 2 * (arch.vector_bits / 8) && last_level_is_fast(arch);
  }

  // Whether the last-level cache does not keep what is streamed between two runs beside all else.
  bool from_memory(const ArchSpec& arch) const { return streamed_bytes() > arch.l3.bytes / 3; }

  // How cpu_direct asks for panels. One or two rows read them as fast as the second-level cache gives them,
  // which each request takes something of; and the processor sees so far ahead that few lines come late. With
  // more rows it does not, and beyond that cache nothing is lost by asking.
  tsr::Streams panel_streams(const ArchSpec& arch) const {
    constexpr int64_t kLeastElements = 65536;
    if (!in_panels() || view_.k * view_.n <= kLeastElements) return tsr::Streams::none;
    if (asks_near(arch)) return tsr::Streams::near;
    const int64_t bytes = streamed_bytes() / (view_.worth_threads_unpacked() ? threads_ : 1);
    if (bytes > arch.l2.bytes) return tsr::Streams::far;
    return bytes <= arch.l2.bytes * 3 / 4 && std::min<int64_t>(config_.tile_m, view_.m) <= 2
               ? tsr::Streams::none
               : tsr::Streams::sparse;
  }

  tsr::Streams streams(const ArchSpec& arch) const {
    if (config_.family_id() == Family::cpu_direct) return panel_streams(arch);
    const int64_t bytes = streamed_bytes();
    if (!asks_near(arch)) {
      const bool kept = row_bytes() <= arch.l1.bytes * 3 / 4;
      return bytes > arch.l2.bytes && kept ? tsr::Streams::far : tsr::Streams::none;
    }
    // One or two rows leave room in L1 for what is asked for, and take less time than it takes to come: the
    // processor follows one long stream best. Of short columns adding up the lanes would take too long.
    constexpr int64_t kLongColumn = 768;  // bytes, for each row
    const int64_t from = config_.tile_m == 1 ? arch.l1.bytes : arch.l2.bytes;
    if (config_.tile_m <= tsr::kRowsInTurn && bytes > from && row_bytes() <= arch.l1.bytes / 2 &&
        row_bytes() >= config_.tile_m * config_.tile_m * kLongColumn) {
      return tsr::Streams::in_turn;
    }
    return bytes > arch.l2.bytes ? tsr::Streams::near : tsr::Streams::none;
  }

  // Into L1 less than half of it. Into L2 enough for memory to answer, little beside L2; of what the
  // last-level cache keeps between two runs beside all else the processor fetches lines early enough by
  // itself.
  int64_t ahead_bytes(const ArchSpec& arch) const {
    constexpr int64_t kNearBytes = 8192, kFarBytes = 65536;
    if (config_.family_id() == Family::cpu_direct) {
      // Panels: beyond the page in use, and near enough to stay where they are asked for.
      if (in_panels()) return asks_near(arch) ? 10240 : 20480;
      if (!asks_near(arch) || streamed_bytes() <= arch.l2.bytes) return 0;
      return from_memory(arch) ? kNearBytes : kNearBytes / 2;
    }
    if (asks_near(arch)) return streams_ == tsr::Streams::none ? 0 : kNearBytes;
    return from_memory(arch) ? kFarBytes : 0;
  }

  // Sums are loaded and stored once a pass, the less often the more rows of A they take; memory gives few
  // lines side by side the faster.
  int64_t pass(const ArchSpec& arch) const {
    if (!asks_near(arch)) return 16;
    if (streamed_bytes() <= arch.l2.bytes) return std::numeric_limits<int32_t>::max();
    return from_memory(arch) && config_.tile_m <= 2 ? 4 : 8 * config_.tile_m;
  }

  // Threads take whole tiles along the longer side of C.
  std::vector<Piece> pieces() {
    const Piece whole{0, view_.m, 0, view_.n};
    worth_threads_ = view_.worth_threads_unpacked();
    if (threads_ == 1 || view_.groups >= threads_ || config_.split_k > 1 || !worth_threads_) return {whole};
    const bool by_rows = view_.m > view_.n;
    const int64_t extent = by_rows ? view_.m : view_.n;
    const int64_t tile = by_rows != (config_.swap_ab == 1) ? config_.tile_m : config_.tile_n;
    const int64_t tiles = ceil_div(extent, tile), count = std::min<int64_t>(threads_, tiles);
    std::vector<Piece> out;
    for (int64_t p = 0; p < count; ++p) {
      const int64_t from = tiles * p / count * tile, to = std::min(tiles * (p + 1) / count * tile, extent);
      out.push_back(by_rows ? Piece{from, to, 0, view_.n} : Piece{0, view_.m, from, to});
    }
    return out;
  }

  void run_task(const Buffers& buffers, tsr::UnpackedArgs args, int64_t group, const Piece& piece) const {
    set_group(args.epilogue, buffers, group);
    args.a = group_a(buffers, group);
    args.b = b_of(buffers, group);
    args.row_begin = piece.row_begin;
    args.row_end = piece.row_end;
    args.col_begin = piece.col_begin;
    args.col_end = piece.col_end;
    entry_(&args);
  }

  // Parts of k by different threads, added up in order by one.
  void run_split_k(const Buffers& buffers, const tsr::UnpackedArgs& whole) const {
    char* sums = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    const int parts = config_.split_k;
    constexpr int64_t kUnit = 64;  // of k: no vector is cut
    const int64_t units = ceil_div(whole.k_end, kUnit);
    for (int64_t g = 0; g < view_.groups; ++g) {
      deal_out(parts, worth_threads_ ? threads_ : 1, [&](int64_t p, int) {
        tsr::UnpackedArgs args = whole;
        args.a = group_a(buffers, g);
        args.b = b_of(buffers, g);
        args.k_begin = std::min<int64_t>(units * p / parts * kUnit, whole.k_end);
        args.k_end = std::min<int64_t>(units * (p + 1) / parts * kUnit, whole.k_end);
        args.sums = sums + static_cast<size_t>(p) * part_bytes();
        entry_(&args);
      });
      tsr::UnpackedArgs args = whole;
      set_group(args.epilogue, buffers, g);
      args.sums = sums;
      args.parts = parts;
      entry_(&args);
    }
  }

  int64_t a_row_bytes_, a_k_bytes_, b_k_bytes_, b_col_bytes_;
  PrepackedB prepacked_;
  int64_t block_k_;
  tsr::Streams streams_;
  int64_t ahead_bytes_, pass_;
  bool worth_threads_ = false;
  std::vector<Piece> pieces_;
  bool simple_;
};

}  // namespace

std::unique_ptr<Kernel> make_unpacked_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                             const Problem& problem, const Choice& choice) {
  return std::make_unique<UnpackedKernel>(std::move(module), arch, problem, choice);
}

}  // namespace tessera
