#include "runtime/race.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/interrupt.h"
#include "core/gemm_view.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

// Memory where the kernels work, of bytes that are small normal numbers in every element type: 0x21 repeated
// is 5e-19 in f32, 33 in i8.
struct Scratch {
  Scratch(DeviceMemory* device, int64_t bytes)
      : device_(device), bytes_(static_cast<size_t>(round_up(std::max<int64_t>(bytes, 64), 64))) {
    host_.resize(bytes_ + 64, 0x21);
    if (device_) {
      data_ = device_->allocate(bytes_);
      try {
        device_->upload(data_, host_.data(), bytes_);
      } catch (...) {
        device_->release(data_);
        throw;
      }
      host_ = {};
    } else {
      data_ = host_.data() + (64 - reinterpret_cast<uintptr_t>(host_.data()) % 64) % 64;
    }
  }
  ~Scratch() {
    if (device_) device_->release(data_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }

 private:
  DeviceMemory* device_;
  size_t bytes_;
  std::vector<char> host_;
  void* data_;
};

// Some runs of a kernel, timed by the clock of where it runs.
class Lap {
 public:
  Lap(const Kernel& kernel, const Buffers& buffers) : kernel_(kernel), buffers_(buffers) {
    kernel_.run(buffers_);
    kernel_.wait();
  }

  // So many runs from now on.
  void repeat(int count) {
    count_ = count;
    if (DeviceMemory* device = kernel_.memory())
      recording_ = device->record(count, [this](int, void* stream) {
        Buffers b = buffers_;
        b.stream = stream;
        kernel_.run_unchecked(b);
      });
  }
  // Microseconds of one.
  double us() const {
    if (recording_) return recording_->replay() / count_;
    const auto start = Clock::now();
    for (int i = 0; i < count_; ++i) kernel_.run_unchecked(buffers_);
    kernel_.wait();
    return us_since(start) / count_;
  }

 private:
  const Kernel& kernel_;
  Buffers buffers_;
  int count_ = 1;
  std::unique_ptr<Recording> recording_;
};

int64_t extent_bytes(const Operand& o) { return std::max<int64_t>(o.extent, 1) * bytes_of(o.type); }

}  // namespace

std::vector<double> race(std::span<const std::unique_ptr<Kernel>> kernels, double budget_ms) {
  if (kernels.empty()) return {};
  const GemmView v = lower(kernels[0]->problem());
  DeviceMemory* device = kernels[0]->memory();
  Scratch a(device, extent_bytes(v.a)), b(device, extent_bytes(v.b)), c(device, extent_bytes(v.c));
  Scratch d(device, v.epilogue.d_count() ? v.groups * v.m * v.n * bytes_of(v.d) : 0);
  Scratch bias(device, v.bias_grad ? v.groups * v.m * 4 : 0);
  std::vector<std::unique_ptr<Scratch>> packed;
  std::vector<Buffers> buffers(kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    buffers[i] = {.a = a.data(), .b = b.data(), .c = c.data()};
    buffers[i].d.fill(d.data());
    buffers[i].bias_grad = static_cast<float*>(bias.data());
    if (v.b_prepacked) {
      packed.push_back(std::make_unique<Scratch>(device, static_cast<int64_t>(kernels[i]->packed_b_bytes())));
      kernels[i]->pack_b(b.data(), packed.back()->data());
      buffers[i].b = packed.back()->data();
    }
  }
  std::vector<std::vector<double>> samples(kernels.size());
  std::vector<Lap> laps;
  laps.reserve(kernels.size());                  // recordings keep where they are
  for (size_t i = 0; i < kernels.size(); ++i) {  // warm up, and repeat short kernels until a sample is ~50 us
    laps.emplace_back(*kernels[i], buffers[i]);
    laps[i].repeat(1);
    laps[i].repeat(static_cast<int>(std::clamp(50.0 / std::max(laps[i].us(), 0.05), 1.0, 1000.0)));
  }
  const auto begin = Clock::now();
  const double budget_us = budget_ms * 1e3 * static_cast<double>(kernels.size());
  for (int round = 0; round < 3 || (us_since(begin) < budget_us && round < 50); ++round) {
    for (size_t i = 0; i < kernels.size(); ++i) {
      throw_if_interrupted();
      samples[i].push_back(laps[i].us());
    }
  }
  std::vector<double> best;
  for (const auto& s : samples) best.push_back(*std::min_element(s.begin(), s.end()));
  return best;
}

}  // namespace tessera
