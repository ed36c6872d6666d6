// The buffers of a run, and whether they are usable, for the backends.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/gemm_view.h"
#include "tessera/kernel.h"

namespace tessera {

struct BufferUse {
  const void* address = nullptr;
  int64_t bytes = 0;
  int alignment = 1;
  const char* name = "";
  int index = 0;            // of a D tensor
  std::string_view step{};  // that reads it

  std::string title() const;  // "d[1] (bias)"
  bool overlaps(const BufferUse& o) const {
    const char *begin = static_cast<const char*>(address), *other = static_cast<const char*>(o.address);
    return begin < other + o.bytes && other < begin + bytes;
  }
};

// On the stack: asked for by every checked run.
class UsedBuffers {
 public:
  void add(const BufferUse& u) { all_[count_++] = u; }
  const BufferUse* begin() const { return all_.data(); }
  const BufferUse* end() const { return all_.data() + count_; }

 private:
  std::array<BufferUse, 3 + Epilogue::kMaxD> all_;
  size_t count_ = 0;
};

// What a run writes, C, and then what it reads: A and B where there is depth, D tensors.
UsedBuffers used_buffers(const GemmView& view, const Buffers& buffers, size_t packed_b_bytes);

// Error(bad_input) unless every buffer the problem needs is there and aligned to its elements, and C overlaps
// no input.
void check_buffers(const GemmView& view, const Buffers& buffers, size_t packed_b_bytes);

// The same in the host's memory, where packed B, `panels` bytes, ends with a seal that names its readers.
void check_host_buffers(const GemmView& view, const Buffers& buffers, size_t panels, uint64_t readers);

// Error(bad_input) unless packing may read `from` at `b` and write `packed_b_bytes` at `packed`.
void check_packing(const Operand& from, const void* b, void* packed, size_t packed_b_bytes);

// What pack_b reads, its leading dimension `ldb` elements or Problem::kPacked; one B of all groups has group
// stride 0. Error(unsupported) where B is not prepacked.
Operand b_to_pack(const GemmView& view, int64_t ldb);

}  // namespace tessera
