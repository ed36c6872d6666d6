// The best of many, by keys of which few are ever compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

// To `out` the indices of the `most` that have the least keys, all positive, the first ones of equals, in
// their order.
void least_of(std::span<const double> keys, size_t most, std::vector<uint32_t>& out);

}  // namespace tessera
