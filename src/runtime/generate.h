// Writes a set of kernels as source files for somebody else's build:
//
//   <symbol>.cpp    one self-contained unit per kernel
//   manifest.json   {version, abi, arch, variant, set, compile_flags, kernels: [{config, symbol, file, flags,
//                   dtype, out, d, acc, layout, epilogue}]}; kernels of several rows may share a file
//   kernels.h       prototypes, and a table from symbol to function
//   registry.json   the same kernels as exact declarations, for Registry::from_json
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// What a set is generated for beside types and layouts.
struct GenerateVariant {
  std::string_view name;
  bool prepack_b;
  std::span<const std::string_view> epilogues;  // when no set says otherwise
  std::string_view doc;
};
std::span<const GenerateVariant> generate_variants();

struct GenerateOptions {
  std::string arch;
  std::vector<std::string> dtypes;   // as in a problem: "f32", "u8xi8"
  std::vector<std::string> layouts;  // "rcr"
  std::string variant = "standard";
  // Which kernels: a preselected set's name, or the path of what Registry::parse reads, or with neither every
  // legal one.
  std::string set, config_file;
  std::string out;  // a directory that is missing or empty
  int jobs = 0;     // 0 = all cores
};

struct GenerateResult {
  int64_t kernels = 0;  // rows of the manifest
  int64_t files = 0;
  std::string manifest;  // its path
};

// All or nothing: the directory appears when it is complete. Error(bad_input) for unknown words, for
// declarations that rules reject (each with its rule, reason and the nearest legal config) or that match no
// legal kernel, and when any type, layout and epilogue asked for has no kernel. progress(done, total, symbol)
// is called by one thread at a time.
GenerateResult generate(const GenerateOptions& options,
                        const std::function<void(size_t, size_t, const std::string&)>& progress = {});

}  // namespace tessera
