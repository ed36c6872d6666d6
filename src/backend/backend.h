// A backend compiles, loads and launches. It selects nothing.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/arch_spec.h"
#include "core/artifact.h"
#include "core/gemm_view.h"
#include "tessera/kernel.h"

namespace tessera {

// A loaded code object. Kernels that share a binary share one of these.
class Module {
 public:
  virtual ~Module() = default;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // The device: its architecture with compute_units and caches filled in from what is there.
  virtual const ArchSpec& arch() const = 0;

  // Name and version of the compiler, part of every cache key. "" when there is none; never throws.
  virtual std::string compiler_identity() const = 0;

  // The compiler's file and its state, where another file may have the same identity: what one of them
  // refuses is not held against the other. "" where there is one of each identity; never throws.
  virtual std::string compiler_file() const { return {}; }

  // `scratch`: an existing directory for temporary files and for the log of a failed compile; "" = the
  // system's. Error(compile_failed) when the compiler refuses the unit, with the path of the log, or when
  // there is no compiler, with the reason. Error(io) when the compiler was killed, timed out, could not write
  // or failed before it judged the unit: worth another try. Thread-safe.
  virtual Binary compile(const Source& source, const std::string& scratch) const = 0;

  // Error(corrupt) when the bytes do not load or lack the symbol. Thread-safe.
  virtual std::shared_ptr<Module> load(const Binary& binary) const = 0;

  // Everything of a launch that does not depend on addresses is worked out here.
  virtual std::unique_ptr<Kernel> prepare(std::shared_ptr<Module> module, const Problem& problem,
                                          const Choice& choice) const = 0;
};

inline constexpr int kMostThreads = 4096;

// Whether the device is an architecture without the thing: what runs nothing.
inline bool only_plans(std::string_view device) { return device.starts_with("null:"); }

// device: "cpu", "cpu:N" (N threads), "cuda:N" (the N-th CUDA device), "null:ARCH" (plans for any
// architecture, runs nothing). Error(bad_input) on other text and where `threads` is another number than N,
// Error(unsupported) where the device is not there. threads 0 = all cores.
std::unique_ptr<Backend> make_backend(std::string_view device, int threads = 0);

// Error(bad_input) on text that make_backend would give it for; looks for no device.
void check_device(std::string_view device);

}  // namespace tessera
