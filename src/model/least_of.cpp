#include "model/least_of.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace tessera {
namespace {

// The key that `most` others, or where some are equal fewer, are less than. Keys are positive: their bits are
// ordered as they are, and sort them into heaps of which only one is looked at; comparing them all takes
// longer, as nothing predicts how that ends.
double limit_of(std::span<const double> keys, size_t most) {
  constexpr int kLog2Heaps = 9;
  const auto [least, greatest] = std::minmax_element(keys.begin(), keys.end());
  const auto low = std::bit_cast<uint64_t>(*least);
  const auto width = static_cast<int>(std::bit_width(std::bit_cast<uint64_t>(*greatest) - low));
  const int shift = std::max(width - kLog2Heaps, 0);
  const auto heap_of = [&](double key) { return (std::bit_cast<uint64_t>(key) - low) >> shift; };
  std::array<uint32_t, size_t{1} << kLog2Heaps> heaps{};
  for (const double key : keys) ++heaps[heap_of(key)];
  size_t heap = 0, below = 0;
  while (below + heaps[heap] <= most) below += heaps[heap++];
  thread_local std::vector<double> same;
  same.clear();
  for (const double key : keys) {
    if (heap_of(key) == heap) same.push_back(key);
  }
  const auto limit = same.begin() + static_cast<std::ptrdiff_t>(most - below);
  std::nth_element(same.begin(), limit, same.end());
  return *limit;
}

}  // namespace

void least_of(std::span<const double> keys, size_t most, std::vector<uint32_t>& out) {
  out.resize(keys.size());
  if (most >= keys.size()) {
    std::iota(out.begin(), out.end(), 0u);
    return;
  }
  const double limit = limit_of(keys, most);
  size_t below = 0, count = 0;
  for (const double key : keys) below += key < limit;
  size_t equals = most - below;
  for (uint32_t i = 0; i < keys.size(); ++i) {
    out[count] = i;
    const bool equal = keys[i] == limit && equals > 0;
    equals -= equal;
    count += keys[i] < limit || equal;
  }
  out.resize(count);
}

}  // namespace tessera
