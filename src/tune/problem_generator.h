// Problems from a generator: coverage that suites of real networks do not give.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tune/suite.h"

namespace tessera {

struct GeneratorOptions {
  std::vector<std::string> dtypes = {"f32"};   // as in a problem's text
  std::vector<std::string> layouts = {"rcr"};  // of GEMMs; one is drawn for each problem
  std::string extra;                           // words added to every problem
  double max_flops = 4e9, max_bytes = 2e8;     // of one problem
  uint64_t seed = 1;
};

// "KIND:COUNT". wide: extents drawn evenly on a logarithmic scale; edges: extents beside multiples of what
// kernels tile by, primes and ones; linear: linear layers of networks; conv_fwd, conv_bwd_data,
// conv_bwd_weight: layers of all kinds. Names are "KIND.INDEX". The same options give the same problems.
// Error(bad_input) for another kind.
std::vector<SuiteRow> generate_problems(std::string_view spec, const GeneratorOptions& options);

}  // namespace tessera
