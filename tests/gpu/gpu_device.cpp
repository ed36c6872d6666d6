#include "gpu/gpu_device.h"

#include <cstdlib>
#include <memory>

#include "backend/cuda/nvrtc.h"

namespace tessera {
namespace {

struct Opened {
  std::unique_ptr<Backend> backend;
  std::string why;

  Opened() {
    if (cuda::nvrtc_identity(&why).empty()) return;
    try {
      backend = make_backend("cuda:0");
    } catch (const std::exception& e) { why = e.what(); }
  }
};

const Opened& opened() {
  static const Opened device;
  return device;
}

}  // namespace

const Backend* gpu_device() { return opened().backend.get(); }
const std::string& why_no_gpu() { return opened().why; }

std::string test_data() {
  const char* folder = std::getenv("TESSERA_TEST_DATA");
  return folder ? folder : TESSERA_SOURCE_DIR "/tests";
}

}  // namespace tessera
