#include "gpu_sets.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/tile_math.h"
#include "tune/element.h"
#include "tune/operands.h"

namespace tessera {

namespace {

constexpr int64_t kBeyondL2 = int64_t{200} << 20, kMostSets = 48;

CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

}  // namespace

std::array<int64_t, 3> bytes_of_set(const GemmView& v) {
  constexpr int64_t kAligned = 1 << 18;
  const auto bytes = [](const Operand& o) { return round_up(o.extent * bytes_of(o.type), kAligned); };
  return {bytes(v.a), bytes(v.b), bytes(v.c)};
}

BufferSets::BufferSets(const GemmView& v)
    : type_(v.c.type), elements_(static_cast<size_t>(v.c.extent)), bytes_(bytes_of_set(v)) {
  const int64_t all = std::accumulate(bytes_.begin(), bytes_.end(), int64_t{0});
  const int64_t sets = std::min(kMostSets, kBeyondL2 / all + 2);
  CU(cuMemAlloc_v2(&pool_, static_cast<size_t>(all * sets + bytes_[2])));
  char* const base = reinterpret_cast<char*>(pool_);
  for (int64_t i = 0; i < sets; ++i) {
    char* at = base + all * i;
    sets_.push_back({.a = at, .b = at + bytes_[0], .c = at + bytes_[0] + bytes_[1], .stream = stream});
  }
  reference_ = sets_[0];
  reference_.c = base + all * sets;
  std::vector<char> host;
  uint64_t seed = 0;
  for (const auto& [o, at] : {std::pair(&v.a, &Buffers::a), {&v.b, &Buffers::b}}) {
    host.resize(static_cast<size_t>(o->extent * bytes_of(o->type)));
    fill(o->type, FillKind::uniform, ++seed, host.data(), o->extent);
    const CUdeviceptr first = address(sets_[0].*at);
    CU(cuMemcpyHtoD_v2(first, host.data(), host.size()));
    for (size_t i = 1; i < sets_.size(); ++i) CU(cuMemcpyDtoD_v2(address(sets_[i].*at), first, host.size()));
  }
}

BufferSets::~BufferSets() { CU(cuMemFree_v2(pool_)); }

void BufferSets::poison() const {
  CU(cuMemsetD8Async(address(sets_[0].c), 0xff, static_cast<size_t>(bytes_[2]), stream));
}

void BufferSets::keep() const {
  CU(cuMemcpyDtoD_v2(address(reference_.c), address(sets_[0].c), static_cast<size_t>(bytes_[2])));
}

double BufferSets::difference(size_t most_bytes) const {
  const auto element = static_cast<size_t>(bytes_of(type_));
  const size_t n = std::min(elements_, most_bytes / element);
  std::vector<char> c(n * element), r(c.size());
  CU(cuMemcpyDtoH_v2(c.data(), address(sets_[0].c), c.size()));
  CU(cuMemcpyDtoH_v2(r.data(), address(reference_.c), r.size()));
  double error = 0, norm = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto at = static_cast<int64_t>(i);
    const double p = load_element(type_, c.data(), at), q = load_element(type_, r.data(), at);
    error += (p - q) * (p - q);
    norm += q * q;
  }
  return std::sqrt(error / std::max(norm, 1e-30));
}

}  // namespace tessera
