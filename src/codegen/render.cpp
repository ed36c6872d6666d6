#include "codegen/render.h"

#include <string>

#include "base/hash.h"
#include "base/text.h"
#include "codegen/closure.h"
#include "core/family.h"
#include "core/groups_shape.h"
#include "core/lines_shape.h"
#include "core/packed_shape.h"
#include "core/scatter_shape.h"
#include "core/tile_math.h"
#include "tessera/error.h"

namespace tessera {
namespace {

struct Prelude {
  std::string text = "struct Config {\n";

  void number(std::string_view name, int value) {
    text += format("  static constexpr int %.*s = %d;\n", static_cast<int>(name.size()), name.data(), value);
  }
  void word(std::string_view type, std::string_view name, std::string_view value) {
    text += "  static constexpr tsr::" + std::string(type) + ' ' + std::string(name) +
            " = tsr::" + std::string(type) + "::" + std::string(value) + ";\n";
  }
};

// Numbers of the steps (clamp bounds, slopes) are arguments of a run: only their order and kinds shape the
// code.
void add_epilogue(Prelude& prelude, const Epilogue& e) {
  prelude.number("epilogue_count", e.count);
  prelude.text += "  static constexpr tsr::Step epilogue[] = {";
  for (const EpilogueStep& step : e) {
    prelude.text +=
        (&step == e.begin() ? "tsr::Step::" : ", tsr::Step::") + std::string(info(step.kind).name);
  }
  prelude.text += e.empty() ? "tsr::Step::none};\n" : "};\n";
}

// Bytes between steps of k, each a 32-bit word, as the driver lays out or finds the operands; 0: told by a
// run.
void add_steps(Prelude& prelude, const GemmView& v, const KernelConfig& c, const ArchSpec& a) {
  prelude.number("a_along_k", v.a.row_major());
  prelude.number("a_table", v.a.patches && !c.pack_a);
  prelude.number("a_step", v.a.row_major() ? 4 : c.pack_a && !packs_all_rows(v) ? 4 * c.tile_m : 0);
  prelude.number("b_step", c.pack_b ? 4 * c.tile_n : 0);
  if (meets_odd_words(v, c, a)) prelude.number("a_words", 1);
}

// Lines of images that are copied; see AmxArgs.
void add_lines(Prelude& prelude, const GemmView& v, const Instruction& inst) {
  prelude.number("a_table", 1);
  if (lines_have_tails(v, k_group(compute_type(v.a.type, inst)), inst.k)) prelude.number("left_tail", 1);
}

// The filter along its last axis, and the channels of a group: of the operand read, and of the one walked.
void add_window(Prelude& prelude, const GemmView& v, const KernelConfig& c, const ArchSpec& a) {
  const GroupsShape shape = groups_shape(v, c);
  const WindowAxis& w = shape.axes[2];
  const struct {
    std::string_view name;
    int64_t value;
  } numbers[] = {{"gradient", shape.gradient},
                 {"joined", shape.joined},
                 {"blocked", shape.blocked},
                 {"block_h", shape.block_h},
                 {"block_w", shape.block_w},
                 {"inner", shape.inner},
                 {"outer", shape.outer},
                 {"taps_d", shape.axes[0].taps},
                 {"taps_h", shape.axes[1].taps},
                 {"taps_w", w.taps},
                 {"step_w", w.step},
                 {"spread_w", w.spread},
                 {"divide_w", w.divide}};
  for (const auto& n : numbers) prelude.number(n.name, static_cast<int>(n.value));
  if (shape.alone) prelude.number("alone", 1);
  if (shape.turned) prelude.number("turned", 1);
  if (groups_stream(v, c, a)) prelude.number("streams", 1);
}

// Of the filter: a transform is nested over the axes that have more than one.
void add_taps(Prelude& prelude, const Window& w) {
  prelude.number("taps_d", static_cast<int>(w.axes[0].taps));
  prelude.number("taps_h", static_cast<int>(w.axes[1].taps));
  prelude.number("taps_w", static_cast<int>(w.axes[2].taps));
}

// What neighbouring taps add to, and how far the next coordinate's lies.
void add_runs(Prelude& prelude, const GemmView& v) {
  const ScatterShape shape = scatter_shape(v);
  prelude.number("run", static_cast<int>(shape.run));
  prelude.number("advance", static_cast<int>(shape.advance));
}

// Whether the driver copies an operand for the kernel that loads by TMA, before each run or once.
bool realigns(const GemmView& v, const KernelConfig& c) {
  return c.family_id() == Family::tma_ws &&
         (v.b_prepacked || !tma_walks(v.a, v.groups) || !tma_walks(v.b, v.groups));
}

std::string config_struct(const GemmView& v, const KernelConfig& c, const ArchSpec& a,
                          const Instruction& inst) {
  const FamilyInfo& family = info(c.family_id());
  Prelude prelude;
  for (std::string_view name : family.kernel_knobs) {
    prelude.number(name, c.*find_config_field(name)->member);
  }
  if (family.backend == BackendKind::cpu) {
    prelude.number("vector_bits", family.walks_window ? inst.n * 32 : a.vector_bits);
    if (family.fixed_steps) add_steps(prelude, v, c, a);
    if (const int64_t live = half_edge(v, c, a)) prelude.number("half_edge", static_cast<int>(live));
    const bool lines = reads_lines(v, c);
    if (lines) add_lines(prelude, v, inst);
    if (family.transforms) add_taps(prelude, *v.window);
    if (family.scatters) add_runs(prelude, v);
    if (family.sums_places) prelude.number("gradient", v.b.patches);
    if (sums_lines(v, c)) prelude.number("gradient", 1);
    if (family.walks_window) {
      add_window(prelude, v, c, a);
    } else if (lines || (!family.scatters && !family.sums_places && v.window && v.window->divisor() > 1)) {
      prelude.number("row_table", 1);  // see strided_parts()
    }
  } else {  // loads from memory are part of the kernel
    prelude.number("a_along_k", v.a.col_stride == 1);
    prelude.number("b_along_k", v.b.row_stride == 1);
    prelude.number("realign", realigns(v, c));
  }
  prelude.word("Inst", "inst", inst.operation());  // vector_bits tells halves
  auto seen = [&](DType memory) { return family.compute_types ? compute_type(memory, inst) : memory; };
  prelude.word("Type", "type_a", to_string(seen(v.a.type)));
  prelude.word("Type", "type_b", to_string(seen(v.b.type)));
  prelude.word("Type", "type_out", to_string(v.c.type));
  prelude.word("Type", "type_d", to_string(v.epilogue.d_count() ? v.d : DType::f32));
  prelude.word("Type", "type_acc", to_string(v.acc));
  add_epilogue(prelude, v.epilogue);
  return prelude.text + "};\n";
}

std::string entry_of(BackendKind backend, const std::string& family, const GemmView& v, const KernelConfig& c,
                     const std::string& symbol) {
  if (backend == BackendKind::cpu) {
    // Only the entry is visible: templates of two kernels must never be merged by the dynamic linker.
    return "extern \"C\" __attribute__((visibility(\"default\"))) void " + symbol +
           "(const void* args) {\n  tsr::" + family + "<Config>(args);\n}\n";
  }
  const std::string kernel = "tsr::" + family + "<Config>";
  const int cluster = c.cluster_m * c.cluster_n * c.cluster_k;
  return "extern \"C\" __global__ void __launch_bounds__(" + kernel + "::kThreads, " + kernel +
         "::kMinBlocks)" + (cluster > 1 ? format(" __cluster_dims__(%d, 1, 1)", cluster) : "") + "\n" +
         symbol + "(const __grid_constant__ " + kernel + "::Params params) {\n  " + kernel +
         "::run(params);\n}\n" +
         (realigns(v, c)
              ? "extern \"C\" __global__ void __launch_bounds__(tsr::Realign::kThreads)\n" + symbol +
                    "_realign(const __grid_constant__ tsr::RealignParams params) {\n  "
                    "tsr::Realign::run(params);\n}\n"
              : "");
}

}  // namespace

Source render(const GemmView& v, const KernelConfig& c, const ArchSpec& a) {
  const FamilyInfo& family = info(c.family_id());
  const std::string name(to_string(c.family_id()));
  if (family.header.empty()) {
    throw Error(ErrorCode::unsupported,
                "kernel family '" + name + "' has no kernel source yet, so it can be planned only",
                "tessera explain shows what would be chosen");
  }
  const Instruction* inst = a.find_instruction(v.a.type, v.b.type, c);
  if (!inst) {
    throw Error(ErrorCode::bad_input,
                "config '" + to_string(c) + "' names no instruction that " + a.name + " has for " +
                    std::string(to_string(v.a.type)) + " x " + std::string(to_string(v.b.type)),
                "see `tessera explain`");
  }
  Source source;
  source.backend = family.backend;
  source.arch = a.name;
  source.flags = a.compile_flags;

  const Closure closure = include_closure(family.header);
  const std::string config = config_struct(v, c, a, *inst);
  source.symbol = "tsr_" + name + '_' + content_hash({name, config, closure.hash, join(source.flags, "\n")});

  const std::string entry = entry_of(family.backend, name, v, c, source.symbol);
  source.text = "#include \"" + std::string(family.header) + "\"\n\n" + config + '\n' + entry;
  source.unit.reserve(closure.text.size() + config.size() + entry.size() + 64);
  source.unit += closure.text;
  source.unit += "#line 1 \"" + source.symbol + "\"\n";
  source.unit += config;
  source.unit += entry;
  return source;
}

}  // namespace tessera
