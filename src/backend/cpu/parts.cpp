#include "backend/cpu/parts.h"

#include <algorithm>

#include "backend/check_buffers.h"

namespace tessera {
namespace {

class PartsKernel : public Kernel {
 public:
  PartsKernel(const Problem& problem, const Choice& choice, std::vector<std::unique_ptr<Kernel>> parts)
      : Kernel(problem, choice), view_(lower(problem)), parts_(std::move(parts)) {}

  void run(const Buffers& buffers) const override {
    check_buffers(view_, buffers, packed_b_bytes());
    run_unchecked(buffers);
  }

  void run_unchecked(const Buffers& buffers) const override {
    Buffers own = buffers;
    for (const auto& part : parts_) {
      part->run_unchecked(own);
      if (view_.b_prepacked) own.b = static_cast<const char*>(own.b) + part->packed_b_bytes();
    }
  }

  size_t workspace_bytes() const override {
    size_t most = 0;
    for (const auto& part : parts_) most = std::max(most, part->workspace_bytes());
    return most;
  }

  size_t packed_b_bytes() const override {
    size_t sum = 0;
    for (const auto& part : parts_) sum += part->packed_b_bytes();
    return sum;
  }

  void pack_b(const void* b, void* packed, int64_t ldb) const override {
    char* to = static_cast<char*>(packed);
    for (const auto& part : parts_) {
      part->pack_b(b, to, ldb);
      to += part->packed_b_bytes();
    }
  }

 private:
  GemmView view_;
  std::vector<std::unique_ptr<Kernel>> parts_;
};

}  // namespace

std::unique_ptr<Kernel> make_in_parts(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                      const Problem& problem, const Choice& choice, MakePart make) {
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (StridedPart& part : strided_parts(lower(problem))) {
    kernels.push_back(make(module, arch, std::move(part), problem, choice));
  }
  if (kernels.size() == 1) return std::move(kernels[0]);
  return std::make_unique<PartsKernel>(problem, choice, std::move(kernels));
}

}  // namespace tessera
