// What the kernels of all CPU families share: buffer checks, epilogue arguments, groups.
#pragma once

#include <memory>

#include "backend/check_buffers.h"
#include "backend/cpu/cpu_module.h"
#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "cpu/abi.h"
#include "tessera/kernel.h"

namespace tessera {

// Stores past the caches are seen before those that follow.
inline void fence_stores() {
#ifdef __x86_64__
  asm volatile("sfence" ::: "memory");
#endif
}

class CpuKernel : public Kernel {
 public:
  CpuKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, const Problem& problem,
            const Choice& choice)
      : CpuKernel(std::move(module), arch, lower(problem), problem, choice) {}
  // Of a part of the problem.
  CpuKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, GemmView view, const Problem& problem,
            const Choice& choice);

  void run(const Buffers& buffers) const override;
  size_t workspace_bytes() const override { return 0; }
  size_t panels_bytes() const override { return 0; }
  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override = 0;

 protected:
  Operand b_to_pack(int64_t ldb) const { return tessera::b_to_pack(view_, ldb); }
  // For group 0; see set_group.
  tsr::EpilogueArgs epilogue_args(const Buffers& buffers) const {
    tsr::EpilogueArgs e;
    set_epilogue(e, buffers);
    return e;
  }
  // The same in place: writes only what the epilogue reads.
  void set_epilogue(tsr::EpilogueArgs& e, const Buffers& buffers) const {
    e.c = buffers.c;
    e.c_stride = view_.c.row_stride;
    e.alpha = buffers.alpha ? static_cast<float>(*buffers.alpha) : alpha_;
    e.beta = buffers.beta ? static_cast<float>(*buffers.beta) : beta_;
    e.plain = e.alpha == 1.0f && e.beta == 0.0f;
    if (view_.epilogue.count) set_steps(e, buffers);
  }
  void set_steps(tsr::EpilogueArgs& e, const Buffers& buffers) const;
  // Moves C and the full D tensors of `e`, made by epilogue_args(buffers), to another group.
  void set_group(tsr::EpilogueArgs& e, const Buffers& buffers, int64_t group) const;

  // Returns how many are left.
  int spare_threads() {
    if (!view_.worth_threads()) threads_ = 1;
    return threads_;
  }

  // vpdpbusd takes A unsigned: signed A is moved up by 128 on its way to the instruction, and -128 * (sum of
  // the column of B) moves the result back.
  bool flips_a() const { return inst_.name == "vnni" && view_.a.type == DType::i8; }

  const char* group_a(const Buffers& b, int64_t group) const {
    return static_cast<const char*>(b.a) + group * view_.a.group_stride * bytes_of(view_.a.type);
  }
  const char* group_b(const Buffers& b, int64_t group) const {
    return static_cast<const char*>(b.b) + group * view_.b.group_stride * bytes_of(view_.b.type);
  }

  std::shared_ptr<CpuModule> module_;
  CpuModule::Entry entry_;
  GemmView view_;
  KernelConfig config_;
  float alpha_, beta_;
  Instruction inst_;
  int threads_;
  int vector_bits_;
};

}  // namespace tessera
