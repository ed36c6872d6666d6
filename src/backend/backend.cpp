#include "backend/backend.h"

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/null/null_backend.h"
#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr int kMostThreads = 4096;

std::unique_ptr<Backend> cpu(std::string_view text, int threads) {
  if (!text.empty()) {
    auto count = parse_int(text);
    if (!count || *count < 1 || *count > kMostThreads) {
      throw Error(ErrorCode::bad_input, "device 'cpu:" + std::string(text) + "' names no thread count",
                  "for example cpu:4");
    }
    threads = static_cast<int>(*count);
  }
  return make_cpu_backend(threads);
}

struct DeviceRow {
  std::string_view name;
  std::string_view form;
  std::unique_ptr<Backend> (*make)(std::string_view after_colon, int threads);
};

constexpr DeviceRow kDevices[] = {
    {"cpu", "cpu or cpu:THREADS", cpu},
    {"cuda", "cuda or cuda:DEVICE", make_cuda_backend},
    {"null", "null:ARCH", make_null_backend},
};

}  // namespace

std::unique_ptr<Backend> make_backend(std::string_view device, int threads) {
  if (threads < 0 || threads > kMostThreads) {
    throw Error(ErrorCode::bad_input, std::to_string(threads) + " threads", "0 (all cores) to 4096");
  }
  const size_t colon = device.find(':');
  std::string forms;
  for (const DeviceRow& row : kDevices) {
    if (device.substr(0, colon) == row.name) {
      return row.make(colon == device.npos ? std::string_view() : device.substr(colon + 1), threads);
    }
    forms += (forms.empty() ? "" : ", ") + std::string(row.form);
  }
  throw Error(ErrorCode::bad_input, "unknown device '" + std::string(device) + "'", "one of " + forms);
}

}  // namespace tessera
