#include "backend/cpu/planes.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/arena.h"
#include "backend/cpu/deal_out.h"
#include "backend/cpu/planes_terms.h"
#include "core/cache_line.h"
#include "core/planes_shape.h"
#include "core/tile_math.h"
#include "cpu/planes_abi.h"

namespace tessera {
namespace {

using Places = std::array<int64_t, ConvShape::kAxes>;

// Positions, or coordinates, that lie in memory as a grid of pixels.
struct Grid {
  Places size;
  int64_t channels = 0;  // of a pixel, all groups'
  int64_t image_bytes = 0;
  Places bytes;  // from one to the next
  int64_t channel_bytes = 0;
};

Grid dense(const Places& size, int64_t channels, int64_t channel_bytes) {
  Grid g{.size = size, .channels = channels, .image_bytes = 0, .bytes = {}, .channel_bytes = channel_bytes};
  int64_t bytes = channels * channel_bytes;
  for (size_t i = size.size(); i-- > 0;) {
    g.bytes[i] = bytes;
    bytes *= size[i];
  }
  g.image_bytes = bytes;
  return g;
}

class PlanesKernel : public CpuKernel {
 public:
  PlanesKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, const Problem& problem,
               const Choice& choice)
      : CpuKernel(std::move(module), arch, problem, choice),
        shape_(planes_shape(view_, config_, arch)),
        terms_(view_, shape_, config_) {
    const Window& w = *view_.window;
    Places coordinates, positions;
    for (size_t i = 0; i < coordinates.size(); ++i) {
      coordinates[i] = w.axes[i].size;
      positions[i] = w.axes[i].positions;
    }
    const DType read = (shape_.gradient ? view_.b : view_.a).type;
    const DType walked = (shape_.gradient ? view_.a : view_.c).type;
    read_ = dense(coordinates, shape_.groups * shape_.inner, bytes_of(read));
    walked_ = dense(positions, shape_.groups * shape_.outer, bytes_of(walked));
    flat_rows_ = shape_.together == shape_.groups && view_.epilogue.d_count() == 0;

    spare_threads();
    thread_bytes_ =
        thread_share(shape_.plane_bytes() + round_up(shape_.sums_bytes, kCacheLine) + shape_.line_floats * 4);
    constexpr int64_t kMost = int64_t{48} << 20;  // bytes of all threads
    threads_ = static_cast<int>(
        std::min<int64_t>({threads_, shape_.units, std::max<int64_t>(kMost / thread_bytes_, 1)}));
  }

  void run_unchecked(const Buffers& buffers) const override {
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    Run run{.buffers = buffers, .filter = nullptr, .epilogue = {}, .looks = true};
    set_epilogue(run.epilogue, buffers);
    run.looks = run.epilogue.alpha != 0.0f;  // otherwise A and B are not looked at
    if (!shape_.gradient && view_.b_prepacked) {
      run.filter = static_cast<const uint32_t*>(buffers.b);
    } else if (!shape_.gradient && run.looks) {
      auto* filter = reinterpret_cast<uint32_t*>(space + threads_ * thread_bytes_);
      terms_.pack(buffers.b, view_.b, filter);
      run.filter = filter;
    }
    deal_out(threads_, threads_, [&](int64_t t, int) {
      compute(run, space + t * thread_bytes_, shape_.units * t / threads_, shape_.units * (t + 1) / threads_);
    });
    if (shape_.gradient) finish(run, space + shape_.plane_bytes());
  }

  size_t workspace_bytes() const override {
    const int64_t filter = shape_.gradient || view_.b_prepacked ? 0 : terms_.filter_words() * 4;
    return static_cast<size_t>(threads_ * thread_bytes_ + filter);
  }
  size_t panels_bytes() const override {
    return view_.b_prepacked ? static_cast<size_t>(terms_.filter_words() * 4) : 0;
  }
  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override {
    terms_.pack(b, b_to_pack(ldb), static_cast<uint32_t*>(packed));
  }

 private:
  struct Run {
    const Buffers& buffers;
    const uint32_t* filter;
    tsr::EpilogueArgs epilogue;
    bool looks;  // at the operands
  };
  // What is computed at a time: see PlanesShape.
  struct Unit {
    int64_t image, group, groups;
    Places begin, count;  // of a residue's positions
    char *read, *walked;  // planes
    float* line;
  };

  void compute(const Run& run, char* space, int64_t first, int64_t last) const {
    const int64_t read = shape_.together * shape_.steps * shape_.phases * shape_.read_bytes;
    char* sums = space + shape_.plane_bytes();
    Unit u{.image = 0,
           .group = 0,
           .groups = 0,
           .begin = {},
           .count = {},
           .read = space,
           .walked = space + read,
           .line = nullptr};
    u.line = reinterpret_cast<float*>(sums + round_up(shape_.sums_bytes, kCacheLine));
    if (shape_.gradient) std::memset(sums, 0, static_cast<size_t>(shape_.sums_bytes));
    // Zeros around what is copied stay where they are while units are copied to the same places, or to all.
    const int64_t zeros = shape_.gradient ? shape_.plane_bytes() : read;
    const int64_t blocks = ceil_div(shape_.groups, shape_.together);
    for (int64_t i = first; i < last && run.looks; ++i) {
      place(u, i, blocks);
      if (i == first || (shape_.bands > 1 && !fills(u))) std::memset(space, 0, static_cast<size_t>(zeros));
      copy_read(run, u);
      if (shape_.gradient) {
        copy_walked(run, u);
        add_gradient(u, reinterpret_cast<float*>(sums));
      } else {
        add_sums(run, u);
        leave(run, u);
      }
    }
    if (run.looks || shape_.gradient) return;
    std::memset(u.walked, 0, static_cast<size_t>(shape_.plane_bytes() - read));
    for (int64_t i = first; i < last; ++i) {
      place(u, i, blocks);
      leave(run, u);
    }
  }

  void place(Unit& u, int64_t i, int64_t blocks) const {
    u.group = i % blocks * shape_.together;
    u.groups = std::min(shape_.together, shape_.groups - u.group);
    const int64_t band = i / blocks % shape_.bands;
    u.image = i / blocks / shape_.bands;
    u.begin = {};
    for (size_t x = 0; x < u.count.size(); ++x) u.count[x] = shape_.axes[x].count;
    u.begin[shape_.axis] = band * shape_.band;
    u.count[shape_.axis] = std::min(shape_.band, u.count[shape_.axis] - u.begin[shape_.axis]);
  }
  // Whether a unit has coordinates, and a gradient positions, for all places along the axis that is cut.
  bool fills(const Unit& u) const {
    const PlanesAxis& a = shape_.axes[shape_.axis];
    const int64_t begin = u.begin[shape_.axis] + a.low, end = begin + shape_.band + a.span();
    return u.count[shape_.axis] == shape_.band && begin >= 0 && end * a.phases <= read_.size[shape_.axis];
  }
  int64_t flat(const Unit& u) const {
    return ((u.count[0] - 1) * shape_.extent[1] + u.count[1] - 1) * shape_.extent[2] + u.count[2];
  }

  // Coordinates that the positions of a unit meet, to planes: [phase][group][channel].
  void copy_read(const Run& run, const Unit& u) const {
    const auto& axes = shape_.axes;
    Places begin, end, base;
    for (size_t i = 0; i < begin.size(); ++i) {
      base[i] = u.begin[i] + axes[i].low;
      begin[i] = std::max<int64_t>(base[i] * axes[i].phases, 0);
      end[i] = std::min((base[i] + u.count[i] + axes[i].span()) * axes[i].phases, read_.size[i]);
    }
    if (begin[1] >= end[1] || begin[2] >= end[2]) return;
    const char* image = static_cast<const char*>(shape_.gradient ? run.buffers.b : run.buffers.a) +
                        u.image * read_.image_bytes + u.group * shape_.inner * read_.channel_bytes +
                        begin[2] * read_.bytes[2];
    const int64_t phases = axes[2].phases, count = end[2] - begin[2], lanes = u.groups * shape_.steps,
                  all = shape_.together * shape_.steps;
    // Where pixels of all phases, neighbours in memory, are few elements together they are copied at a time.
    const bool joined = u.groups == shape_.groups && phases * lanes <= inst_.n;
    tsr::PlanesArgs args{};
    args.phase = tsr::PlanesPhase::copy;
    args.plane_bytes = shape_.read_bytes;
    args.unit_bytes = phases * read_.bytes[2];
    args.line_bytes = axes[1].phases * read_.bytes[1];
    args.plane_line_bytes = shape_.extent[2] * shape_.element;
    const auto copy = [&](const char* from, char* planes, int64_t units, int64_t elements) {
      args.from = from;
      args.planes = planes;
      args.count = units;
      args.lanes = static_cast<int>(elements);
      entry_(&args);
    };
    for (int64_t x0 = begin[0]; x0 < end[0]; ++x0) {
      for (int64_t p1 = 0; p1 < axes[1].phases; ++p1) {
        const int64_t x1 = begin[1] + (p1 - begin[1] % axes[1].phases + axes[1].phases) % axes[1].phases;
        if (x1 >= end[1]) continue;
        args.lines = ceil_div(end[1] - x1, axes[1].phases);
        const int64_t phase = (x0 % axes[0].phases * axes[1].phases + p1) * phases;
        const int64_t at =
            ((x0 / axes[0].phases - base[0]) * shape_.extent[1] + x1 / axes[1].phases - base[1]) *
                shape_.extent[2] +
            begin[2] / phases - base[2];
        const char* from = image + x0 * read_.bytes[0] + x1 * read_.bytes[1];
        char* planes = u.read + phase * all * shape_.read_bytes + at * shape_.element;
        if (!joined) {
          for (int64_t p = 0; p < std::min(phases, count); ++p) {
            copy(from + p * read_.bytes[2], planes + p * all * shape_.read_bytes, ceil_div(count - p, phases),
                 lanes);
          }
          continue;
        }
        const int64_t whole = count / phases, rest = count % phases;
        if (whole > 0) copy(from, planes, whole, phases * lanes);
        if (rest > 0) copy(from + whole * args.unit_bytes, planes + whole * shape_.element, 1, rest * lanes);
      }
    }
  }

  // Positions of a unit, of which a gradient has one residue, to planes.
  void copy_walked(const Run& run, const Unit& u) const {
    tsr::PlanesArgs args{};
    args.phase = tsr::PlanesPhase::copy_walked;
    args.plane_bytes = shape_.walked_bytes;
    args.unit_bytes = walked_.bytes[2];
    args.count = u.count[2];
    args.lanes = static_cast<int>(u.groups * shape_.outer);
    args.lines = u.count[1];
    args.line_bytes = walked_.bytes[1];
    args.plane_line_bytes = shape_.extent[2] * shape_.element;
    for (int64_t i = 0; i < u.count[0]; ++i) {
      args.from = static_cast<const char*>(run.buffers.a) + u.image * walked_.image_bytes +
                  u.group * shape_.outer * walked_.channel_bytes + (u.begin[0] + i) * walked_.bytes[0] +
                  u.begin[1] * walked_.bytes[1];
      args.planes = u.walked + i * shape_.extent[1] * args.plane_line_bytes;
      entry_(&args);
    }
  }

  void add_sums(const Run& run, const Unit& u) const {
    tsr::PlanesArgs args{};
    args.phase = tsr::PlanesPhase::sums;
    args.plane_bytes = shape_.walked_bytes;
    args.outer = shape_.outer;
    args.flat = flat(u);
    for (int64_t g = 0; g < u.groups; ++g) {
      args.read = u.read + g * shape_.steps * shape_.read_bytes;
      for (int64_t r = 0; r < shape_.residues; ++r) {
        const PlanesTerms::Residue& residue = terms_.residue(r);
        args.walked = walked_plane(u, g, r);
        args.offsets = terms_.offsets() + residue.first;
        args.terms = residue.terms;
        args.filter = run.filter + (u.group + g) * terms_.group_words() + residue.filter;
        entry_(&args);
      }
    }
  }
  // Of all groups of a unit: [residue][group][output].
  char* walked_plane(const Unit& u, int64_t group, int64_t residue) const {
    return u.walked + (residue * u.groups + group) * shape_.outer * shape_.walked_bytes;
  }

  void leave(const Run& run, const Unit& u) const {
    const auto& axes = shape_.axes;
    tsr::PlanesArgs args{};
    args.phase = tsr::PlanesPhase::leave;
    args.plane_bytes = shape_.walked_bytes;
    args.plane_line_bytes = shape_.extent[2] * 4;
    args.count = walked_.size[2];
    args.lanes = static_cast<int>(u.groups * shape_.outer);
    args.residues = static_cast<int>(axes[2].residues);
    args.line = args.lanes == 1 && args.residues == 1 ? nullptr : u.line;
    args.row_step = axes[1].residues * walked_.size[2];
    args.col = u.group * shape_.outer;
    args.flat_rows = flat_rows_;
    args.epilogue = run.epilogue;
    for (int64_t i = 0; i < u.count[0] * axes[0].residues; ++i) {
      const int64_t p0 = u.begin[0] * axes[0].residues + i, r0 = i % axes[0].residues;
      if (p0 >= walked_.size[0]) break;
      for (int64_t r1 = 0; r1 < axes[1].residues; ++r1) {
        const int64_t p1 = u.begin[1] * axes[1].residues + r1;
        if (p1 >= walked_.size[1]) break;
        args.lines = std::min(u.count[1], ceil_div(walked_.size[1] - p1, axes[1].residues));
        args.planes = walked_plane(u, 0, (r0 * axes[1].residues + r1) * axes[2].residues) +
                      i / axes[0].residues * shape_.extent[1] * args.plane_line_bytes;
        args.row = ((u.image * walked_.size[0] + p0) * walked_.size[1] + p1) * walked_.size[2];
        entry_(&args);
      }
    }
  }

  int64_t group_sums() const { return shape_.sums_bytes / 4 / shape_.groups; }

  void add_gradient(const Unit& u, float* sums) const {
    tsr::PlanesArgs args{};
    args.phase = tsr::PlanesPhase::gradient;
    args.plane_bytes = shape_.walked_bytes;
    args.outer = shape_.outer;
    args.flat = flat(u);
    args.offsets = terms_.offsets();
    args.terms = view_.n;
    for (int64_t g = 0; g < u.groups; ++g) {
      args.read = u.read + g * shape_.steps * shape_.read_bytes;
      args.walked = walked_plane(u, g, 0);
      args.sums = sums + (u.group + g) * group_sums();
      entry_(&args);
    }
  }

  void finish(const Run& run, char* sums) const {
    deal_out(shape_.groups, threads_, [&](int64_t g, int) {
      tsr::PlanesArgs args{};
      args.phase = tsr::PlanesPhase::finish;
      args.terms = view_.n;
      args.sums = reinterpret_cast<float*>(sums) + g * group_sums();
      args.part = thread_bytes_ / 4;
      args.parts = threads_;
      args.epilogue = run.epilogue;
      set_group(args.epilogue, run.buffers, g);
      for (args.outer = 0; args.outer < shape_.outer; ++args.outer) {
        args.row = args.outer;
        entry_(&args);
      }
    });
  }

  PlanesShape shape_;
  PlanesTerms terms_;
  Grid read_, walked_;
  bool flat_rows_ = false;
  int64_t thread_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_planes_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                           const Problem& problem, const Choice& choice) {
  return std::make_unique<PlanesKernel>(std::move(module), arch, problem, choice);
}

}  // namespace tessera
