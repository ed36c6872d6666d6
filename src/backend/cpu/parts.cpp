#include "backend/cpu/parts.h"

#include <algorithm>

#include "backend/check_buffers.h"
#include "backend/cpu/arena.h"
#include "backend/cpu/deal_out.h"
#include "core/cache_line.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

class PartsKernel : public Kernel {
 public:
  PartsKernel(const Problem& problem, const Choice& choice, std::vector<std::unique_ptr<PartKernel>> parts)
      : Kernel(problem, choice),
        view_(lower(problem)),
        parts_(std::move(parts)),
        threads_(parts_[0]->threads()),
        turns_(parts_[0]->turns()) {
    for (const auto& part : parts_) {
      if (part->turns() != turns_) turns_ = 1;
      turn_bytes_ = std::max<int64_t>(turn_bytes_, static_cast<int64_t>(part->turn_bytes()));
    }
    turn_bytes_ = round_up(turn_bytes_, kCacheLine);
    constexpr int64_t kTurnsEach = 8;  // of every thread, so that none waits long for the last one
    if (threads_ > 1 && turns_ < kTurnsEach * threads_) turns_ = 1;
  }

  void run(const Buffers& buffers) const override {
    check_host_buffers(view_, buffers, panels_bytes(), packed_readers_);
    run_unchecked(buffers);
  }

  void run_unchecked(const Buffers& buffers) const override {
    if (turns_ > 1) return run_in_turns(buffers);
    over_parts(buffers, [](const PartKernel& part, const Buffers& own) { part.run_unchecked(own); });
  }

  size_t workspace_bytes() const override {
    if (turns_ > 1) return static_cast<size_t>(threads_ * turn_bytes_);
    size_t most = 0;
    for (const auto& part : parts_) most = std::max(most, part->workspace_bytes());
    return most;
  }

  size_t panels_bytes() const override {
    size_t sum = 0;
    for (const auto& part : parts_) sum += part->panels_bytes();
    return sum;
  }

  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override {
    char* to = static_cast<char*>(packed);
    for (const auto& part : parts_) {
      part->pack_b_unchecked(b, to, ldb);
      to += part->panels_bytes();
    }
  }

 private:
  template <class Run>
  void over_parts(const Buffers& buffers, const Run& run) const {
    Buffers own = buffers;
    for (const auto& part : parts_) {
      run(*part, own);
      if (view_.b_prepacked) own.b = static_cast<const char*>(own.b) + part->panels_bytes();
    }
  }

  void run_in_turns(const Buffers& buffers) const {
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    deal_out(turns_, threads_, [&](int64_t turn, int thread) {
      over_parts(buffers, [&](const PartKernel& part, const Buffers& own) {
        part.run_turn(own, turn, space + thread * turn_bytes_);
      });
    });
  }

  GemmView view_;
  std::vector<std::unique_ptr<PartKernel>> parts_;
  int threads_;
  int64_t turns_, turn_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_in_parts(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                      const Problem& problem, const Choice& choice, MakePart make) {
  std::vector<std::unique_ptr<PartKernel>> kernels;
  for (StridedPart& part : strided_parts(lower(problem))) {
    kernels.push_back(make(module, arch, std::move(part), problem, choice));
  }
  if (kernels.size() == 1) return std::move(kernels[0]);
  return std::make_unique<PartsKernel>(problem, choice, std::move(kernels));
}

}  // namespace tessera
