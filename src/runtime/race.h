// Times prepared kernels of one problem against each other: what the model_topk policy decides by.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tessera/kernel.h"

namespace tessera {

// Least microseconds of each kernel on scratch operands, by the clock of where it runs, rounds interleaved so
// that drift hits all alike. Spends about budget_ms per kernel, at least three rounds.
std::vector<double> race(std::span<const std::unique_ptr<Kernel>> kernels, double budget_ms);

}  // namespace tessera
