#include "backend/cpu/packed.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "backend/cpu/arena.h"
#include "backend/cpu/copy_pieces.h"
#include "backend/cpu/deal_out.h"
#include "backend/cpu/edge_columns.h"
#include "backend/cpu/packed_operands.h"
#include "backend/cpu/packed_plan.h"
#include "backend/cpu/parts.h"
#include "backend/cpu/prepacked_b.h"
#include "backend/cpu/streamed_rows.h"
#include "core/tile_math.h"
#include "tessera/error.h"

namespace tessera {
namespace {

class PackedKernel : public PartKernel {
 public:
  PackedKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, StridedPart part,
               const Problem& problem, const Choice& choice)
      : PartKernel(std::move(module), arch, std::move(part.view), problem, choice),
        plan_(view_, config_, inst_, arch, threads_, flips_a()),
        edge_dot_(plan_.edge_words ? edge_dot_words_avx512(view_.a.type) : edge_dot(vector_bits_)),
        operands_(view_, plan_, std::move(part.taps), vector_bits_),
        prepacked_(view_, plan_.tile_n, plan_.group, plan_.flip_a, arch, plan_.edge) {}

  void run_unchecked(const Buffers& buffers) const override {
    tsr::EpilogueArgs epilogue = epilogue_args(buffers);
    if (view_.k == 0 || epilogue.alpha == 0.0f)
      return without_product(buffers, epilogue, threads_);  // A and B are not looked at
    const int threads = busy_threads();
    if (plan_.one_block) return run_task(buffers, plan_.tasks[0], epilogue, nullptr, nullptr);
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    char* parts = space + threads * plan_.thread_bytes();
    deal_out(std::ssize(plan_.tasks), threads, [&](int64_t i, int thread) {
      run_task(buffers, plan_.tasks[static_cast<size_t>(i)], epilogue, space + thread * plan_.thread_bytes(),
               parts);
    });
    if (config_.split_k > 1) finish_parts(buffers, epilogue, parts);
  }

  int64_t turns() const override { return plan_.grid_m; }
  size_t turn_bytes() const override { return static_cast<size_t>(plan_.thread_bytes()); }

  void run_turn(const Buffers& buffers, int64_t turn, char* space) const override {
    tsr::EpilogueArgs epilogue = epilogue_args(buffers);
    if (view_.k == 0 || epilogue.alpha == 0.0f) {
      if (turn == 0) without_product(buffers, epilogue, 1);
      return;
    }
    const int64_t count = static_cast<int64_t>(plan_.tasks.size()) / plan_.grid_m;
    for (int64_t i = turn * count; i < (turn + 1) * count; ++i)
      run_task(buffers, plan_.tasks[static_cast<size_t>(i)], epilogue, space, nullptr);
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(busy_threads() * plan_.thread_bytes() +
                               view_.groups * config_.split_k * plan_.part_bytes);
  }

  size_t panels_bytes() const override {
    return view_.b_prepacked ? static_cast<size_t>(prepacked_.bytes()) : 0;
  }

  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override {
    prepacked_.pack(
        b_to_pack(ldb), b, packed,
        [this](const char* from, const Operand& o, int64_t n, void* to) {
          operands_.pack_b_panel(from, o, 0, view_.k, n, plan_.n, to, prepacked_.stream());
        },
        [this](const char* from, const Operand& o, char* to) { operands_.gather_edge(from, o, to); });
  }

 private:
  static constexpr int kZeros[kMostTileColumns] = {};

  // What one thread keeps, one after another in its part of the workspace.
  struct Space {
    Space(const PackedPlan& plan, char* at)
        : a(at),
          b(a + plan.a_bytes),
          sums(b + plan.b_bytes),
          c_table(reinterpret_cast<long long*>(sums + plan.sums_bytes)),
          edge(sums + plan.sums_bytes + plan.c_table_bytes),
          a_table(reinterpret_cast<const char**>(edge + plan.edge_bytes)),
          a_rest(edge + plan.edge_bytes + plan.a_table_bytes),
          c(a_rest + plan.a_rest_bytes) {}
    char *a, *b, *sums;
    long long* c_table;
    char* edge;
    const char** a_table;
    char *a_rest, *c;
  };

  int busy_threads() const {
    return static_cast<int>(std::min<int64_t>(threads_, static_cast<int64_t>(plan_.tasks.size())));
  }

  void run_task(const Buffers& buffers, const PackedTask& t, tsr::EpilogueArgs epilogue, char* own,
                char* parts) const {
    const Space space(plan_, own);
    set_group(epilogue, buffers, t.group);
    const char* a = group_a(buffers, t.group);
    const char* b = view_.b_prepacked
                        ? static_cast<const char*>(buffers.b) + t.group * prepacked_.group_bytes()
                        : group_b(buffers, t.group);
    const bool split = config_.split_k > 1, has_edge = plan_.edge > 0 && t.n1 == plan_.n;
    if (has_edge && plan_.edge_bytes > 0) operands_.gather_edge(b, view_.b, space.edge);

    // Where C is added to, it is read anyway.
    std::optional<StreamedRows> apart;
    if (plan_.buffers_c && epilogue.beta == 0.0f) apart.emplace(view_, plan_.tile_n, space.c, epilogue);

    tsr::PackedArgs args{};
    args.epilogue = &epilogue;
    args.far_c = apart ? tsr::kFarIgnored : plan_.far_c;
    args.partial_stride = split ? round_up(view_.n, plan_.tile_n) : plan_.cols;
    for (int64_t n0 = t.n0, n1; n0 < t.n1; n0 = n1) {
      n1 = plan_.cols > plan_.tile_n ? std::min(n0 + plan_.cols, t.n1) : n0 + plan_.panel_cols(n0, t.n1);
      char* sums = split ? parts + (t.group * config_.split_k + t.part) * plan_.part_bytes +
                               (t.m0 * args.partial_stride + n0) * 4
                         : space.sums;
      for (int64_t k0 = t.k0; k0 < t.k1; k0 += plan_.depth) {
        const int64_t depth = std::min(plan_.depth, t.k1 - k0);
        args.steps = ceil_div(depth, plan_.group);
        args.first = k0 == t.k0;
        args.last = k0 + plan_.depth >= t.k1 && !split;
        for (int64_t m0 = t.m0; m0 < t.m1;) {
          const int64_t m1 = t.m1 - m0 - plan_.rows < plan_.tile_m ? t.m1 : m0 + plan_.rows;
          const PackedBlock block{m0, m1, k0, depth};
          set_rows(a, block, space, epilogue, args);
          const bool edge_too = has_edge && n1 == plan_.n && args.last;
          if (apart) apart->begin(block, n0, edge_too ? view_.n : n1);
          for (int64_t n = n0; n < n1; n += plan_.strip) {
            run_panels(a, b, t, block, n, std::min(n + plan_.strip, n1), space.b,
                       sums + ((m0 - t.m0) * args.partial_stride + n - n0) * 4, args,
                       apart ? &*apart : nullptr);
          }
          if (edge_too) {
            if (apart) apart->take(plan_.n);
            edge_rows(a, b, space.edge, m0, m1, epilogue);
            if (apart) apart->give(plan_.n, view_.n);
          }
          m0 = m1;
        }
      }
    }
    if (plan_.far_c == tsr::kFarStreamed || apart) fence_stores();
  }

  // The rows of a block: of A, packed where that is wanted, and of C.
  void set_rows(const char* a, const PackedBlock& block, const Space& space, tsr::EpilogueArgs& epilogue,
                tsr::PackedArgs& args) const {
    args.rows = block.rows();
    args.row0 = block.m0;
    if (view_.c_rows) set_table(block.m0, args, epilogue, space.c_table);
    if (plan_.pack_a) {
      operands_.pack_a(a, block, space.a, args);
    } else if (plan_.taps_in_place) {
      operands_.point_at_taps(a, block, space.a_table, args);
    } else {
      operands_.take_a(a, block, space.a_rest, args);
    }
  }

  // The block times the panels of columns [n0, n1), which its task's first block packs; sums between blocks
  // of k at `sums`.
  void run_panels(const char* a, const char* b, const PackedTask& t, const PackedBlock& block, int64_t n0,
                  int64_t n1, char* packed, char* sums, tsr::PackedArgs& args, StreamedRows* apart) const {
    const int64_t tile_n = plan_.tile_n, panel = plan_.panel_b(block.depth);
    const bool keeps_b = plan_.keeps_b(t.m1 - t.m0), first = block.m0 == t.m0;
    const bool whole = plan_.by_blocks && !plan_.b_in_place;  // all panels of the columns are packed first
    if (whole && first) operands_.pack_b_block(b, block.k0, block.depth, n0, n1, packed);
    const bool ahead = (view_.b_prepacked || (keeps_b && !plan_.b_in_place && (!first || plan_.by_blocks))) &&
                       !plan_.many_short_tiles(block.rows(), args.steps);
    for (int64_t n = n0, end; n < n1; n = end) {
      args.cols = plan_.panel_cols(n, n1);
      args.col0 = n;
      end = n + args.cols;
      char* own = packed + (keeps_b ? ceil_div(n - n0, tile_n) * panel : 0);
      const bool packs = !keeps_b || (first && !whole);
      set_b(args, b, block, n, end, own, packs);
      if (packs && plan_.fetches_b) {
        set_unpacked_ahead(args, b, block, end, n1);
      } else {
        set_ahead(args, ahead && end < n1, panel);
      }
      if (plan_.fetches_a && end >= t.n1) set_rows_ahead(args, a, t, block);
      args.partial = args.first && args.last ? nullptr : sums + (n - n0) * 4;
      if (apart) apart->take(n);
      entry_(&args);
      if (apart) apart->give(n, n + args.cols);
    }
  }

  // The panel at column n: of prepacked B, in place, or in `own`, packed first where that is not done yet.
  void set_b(tsr::PackedArgs& args, const char* b, const PackedBlock& block, int64_t n, int64_t n1, char* own,
             bool pack) const {
    const int64_t step = plan_.tile_n * 4;
    args.b_step_bytes = step;
    args.start = kZeros;
    if (view_.b_prepacked) {
      const char* whole = b + n / plan_.tile_n * prepacked_.panel_bytes();
      args.b = whole + block.k0 / plan_.group * step;
      if (plan_.flip_a && block.k0 == 0)
        args.start = reinterpret_cast<const int*>(whole + ceil_div(view_.k, plan_.group) * step);
      return;
    }
    if (plan_.b_in_place && n + plan_.tile_n <= plan_.n) {
      args.b = b + (block.k0 * view_.b.row_stride + n) * 4;
      args.b_step_bytes = view_.b.row_stride * 4;
      return;
    }
    if (pack) operands_.pack_b_panel(b, view_.b, block.k0, block.depth, n, n1, own);
    args.b = own;
    if (plan_.flip_a)
      args.start = reinterpret_cast<const int*>(own + ceil_div(block.depth, plan_.group) * step);
  }

  // The rows of A of the next block of the task.
  void set_rows_ahead(tsr::PackedArgs& args, const char* a, const PackedTask& t,
                      const PackedBlock& block) const {
    if (block.m1 >= t.m1) return;
    const int64_t size = bytes_of(view_.a.type), row = view_.a.row_stride * size;
    args.next_b = a + block.m1 * row + block.k0 * size;
    args.next_b_bytes = std::min(plan_.rows, t.m1 - block.m1) * row;
  }

  // Where the next panel is packed already, the call fetches it while it works on this one.
  void set_ahead(tsr::PackedArgs& args, bool packed, int64_t panel) const {
    args.next_b =
        packed ? static_cast<const char*>(args.b) + (view_.b_prepacked ? prepacked_.panel_bytes() : panel)
               : nullptr;
    args.next_b_bytes = panel;
  }

  // The columns from n on that the next panel is packed from.
  void set_unpacked_ahead(tsr::PackedArgs& args, const char* b, const PackedBlock& block, int64_t n,
                          int64_t n1) const {
    const int64_t column = view_.b.col_stride * bytes_of(view_.b.type);
    args.next_b = n < n1 ? b + n * column + block.k0 * bytes_of(view_.b.type) : nullptr;
    args.next_b_bytes = std::min<int64_t>(plan_.tile_n, n1 - n) * column;
  }

  // Rows [m0, m1) of the columns past plan_.n, over all of k.
  void edge_rows(const char* a, const char* b, const char* edge, int64_t m0, int64_t m1,
                 const tsr::EpilogueArgs& epilogue) const {
    constexpr int64_t kRowsAtOnce = 48, kStride = 16;
    alignas(64) uint32_t sums[kRowsAtOnce * kStride] = {};
    const int64_t size = bytes_of(view_.b.type);
    EdgeColumns columns{};
    columns.a_stride = view_.a.row_stride * size;
    const bool in_place = plan_.edge_bytes == 0 && !view_.b_prepacked;
    columns.b = in_place            ? b + plan_.n * view_.b.col_stride * size
                : view_.b_prepacked ? b + prepacked_.edge_at()
                                    : edge;
    columns.b_stride = (in_place ? view_.b.col_stride : view_.k) * size;
    columns.k = view_.k;
    columns.cols = static_cast<int>(plan_.edge);
    if (view_.epilogue.count == 0 && epilogue.plain && view_.c.type == view_.acc && !view_.c_rows) {
      const int64_t c_row = epilogue.c_stride * 4;
      columns.a = a + m0 * columns.a_stride;
      columns.rows = m1 - m0;
      columns.sums = static_cast<char*>(epilogue.c) + m0 * c_row + plan_.n * 4;
      columns.sums_stride = c_row;
      return edge_dot_(columns);
    }
    columns.sums = sums;
    columns.sums_stride = kStride * 4;
    tsr::PackedArgs args{};
    args.last = 1;
    args.partial = sums;
    args.partial_stride = kStride;
    args.epilogue = &epilogue;
    args.start = kZeros;
    args.cols = plan_.edge;
    args.col0 = plan_.n;
    for (int64_t row = m0; row < m1; row += kRowsAtOnce) {
      columns.a = a + row * columns.a_stride;
      columns.rows = std::min(kRowsAtOnce, m1 - row);
      edge_dot_(columns);
      args.rows = columns.rows;
      args.row0 = row;
      entry_(&args);
    }
  }

  // Where the rows of a call from `row` on are in C.
  void set_table(int64_t row, tsr::PackedArgs& args, tsr::EpilogueArgs& epilogue, long long* table) const {
    const RowGrid& grid = *view_.c_rows;
    for (int64_t i = 0; i < args.rows;) {
      const int64_t line =
          std::min<int64_t>(grid.positions[2] - (row + i) % grid.positions[2], args.rows - i);
      for (int64_t j = 0, at = grid.row(row + i); j < line; ++j, at += grid.step[2]) table[i + j] = at;
      i += line;
    }
    epilogue.rows = table;
    args.row0 = 0;
  }

  // The epilogue over rows [m0, m1) of finished sums of one group, or over zeros: a pass over no k at all.
  void epilogue_only(char* sums, int64_t stride, tsr::EpilogueArgs epilogue, int64_t m0, int64_t m1) const {
    tsr::PackedArgs args{};
    args.first = !sums;
    args.last = 1;
    args.partial_stride = stride;
    args.epilogue = &epilogue;
    args.start = kZeros;
    constexpr int64_t kTable = 256;
    long long table[kTable];
    const int64_t step = view_.c_rows ? kTable : m1 - m0;
    for (int64_t row = m0; row < m1; row += step) {
      args.rows = std::min(step, m1 - row);
      args.row0 = row;
      if (view_.c_rows) set_table(row, args, epilogue, table);
      for (int64_t n0 = 0; n0 < view_.n; n0 += plan_.tile_n) {
        args.cols = std::min<int64_t>(plan_.tile_n, view_.n - n0);
        args.col0 = n0;
        if (sums) args.partial = sums + (row * stride + n0) * 4;
        entry_(&args);
      }
    }
  }

  void without_product(const Buffers& buffers, tsr::EpilogueArgs& epilogue, int threads) const {
    if (epilogue.alpha == 0.0f) {  // what alpha multiplies is zero already
      epilogue.alpha = 1.0f;
      epilogue.plain = epilogue.beta == 0.0f;
    }
    deal_out_rows(view_.groups, view_.m, view_.n * bytes_of(view_.c.type), threads,
                  [&](int64_t group, int64_t m0, int64_t m1) {
                    tsr::EpilogueArgs own = epilogue;
                    set_group(own, buffers, group);
                    epilogue_only(nullptr, 0, own, m0, m1);
                  });
  }

  // The sums of the parts of k, always added in the order of k.
  void finish_parts(const Buffers& buffers, const tsr::EpilogueArgs& epilogue, char* parts) const {
    const int64_t stride = round_up(view_.n, plan_.tile_n), count = plan_.tasks.back().part + 1;
    deal_out_rows(
        view_.groups, view_.m, view_.n * 4 * count, threads_, [&](int64_t group, int64_t m0, int64_t m1) {
          char* total = parts + group * config_.split_k * plan_.part_bytes;
          const int64_t first = m0 * stride * 4, elements = (m1 - m0) * stride;
          for (int64_t p = 1; p < count; ++p) {
            const char* part = total + p * plan_.part_bytes + first;
            if (view_.acc == DType::i32) {
              add(reinterpret_cast<uint32_t*>(total + first), reinterpret_cast<const uint32_t*>(part),
                  elements);
            } else {
              add(reinterpret_cast<float*>(total + first), reinterpret_cast<const float*>(part), elements);
            }
          }
          tsr::EpilogueArgs own = epilogue;
          set_group(own, buffers, group);
          epilogue_only(total, stride, own, m0, m1);
        });
  }

  template <class T>
  static void add(T* total, const T* part, int64_t count) {
    for (int64_t i = 0; i < count; ++i) total[i] += part[i];
  }

  PackedPlan plan_;
  EdgeDot edge_dot_;
  PackedOperands operands_;
  PrepackedB prepacked_;
};

std::unique_ptr<PartKernel> make_packed_part(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                             StridedPart part, const Problem& problem, const Choice& choice) {
  return std::make_unique<PackedKernel>(std::move(module), arch, std::move(part), problem, choice);
}

}  // namespace

std::unique_ptr<Kernel> make_packed_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                           const Problem& problem, const Choice& choice) {
  return make_in_parts(std::move(module), arch, problem, choice, make_packed_part);
}

}  // namespace tessera
