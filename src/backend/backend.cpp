#include "backend/backend.h"

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/null/null_backend.h"
#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

int thread_count(std::string_view text) {
  const auto count = parse_int(text);
  if (!count || *count < 1 || *count > kMostThreads) {
    throw Error(ErrorCode::bad_input, "device 'cpu:" + std::string(text) + "' names no thread count",
                "for example cpu:4");
  }
  return static_cast<int>(*count);
}

void check_cpu(std::string_view text) {
  if (!text.empty()) thread_count(text);
}
std::unique_ptr<Backend> cpu(std::string_view text, int threads) {
  if (text.empty()) return make_cpu_backend(threads);
  const int count = thread_count(text);
  if (threads && threads != count) {
    throw Error(ErrorCode::bad_input,
                "device 'cpu:" + std::string(text) + "' with " + std::to_string(threads) + " threads",
                "give one of the two");
  }
  return make_cpu_backend(count);
}

struct DeviceRow {
  std::string_view name;
  std::string_view form;
  void (*check)(std::string_view after_colon);  // Error(bad_input) where it is no such device's
  std::unique_ptr<Backend> (*make)(std::string_view after_colon, int threads);
};

constexpr DeviceRow kDevices[] = {
    {"cpu", "cpu or cpu:THREADS", check_cpu, cpu},
    {"cuda", "cuda or cuda:DEVICE", [](std::string_view text) { cuda_ordinal(text); }, make_cuda_backend},
    {"null", "null:ARCH", [](std::string_view text) { find_arch(text); }, make_null_backend},
};

// A device's row, and what follows the colon.
std::pair<const DeviceRow*, std::string_view> find_device(std::string_view device) {
  const size_t colon = device.find(':');
  std::string forms;
  for (const DeviceRow& row : kDevices) {
    const bool cut_off = colon + 1 == device.size();  // "cpu:"
    if (device.substr(0, colon) == row.name && !cut_off)
      return {&row, colon == device.npos ? std::string_view() : device.substr(colon + 1)};
    forms += (forms.empty() ? "" : ", ") + std::string(row.form);
  }
  throw Error(ErrorCode::bad_input, "unknown device '" + std::string(device) + "'", "one of " + forms);
}

}  // namespace

void check_device(std::string_view device) {
  const auto [row, text] = find_device(device);
  row->check(text);
}

std::unique_ptr<Backend> make_backend(std::string_view device, int threads) {
  if (threads < 0 || threads > kMostThreads) {
    throw Error(ErrorCode::bad_input, std::to_string(threads) + " threads",
                "0 (all cores) to " + std::to_string(kMostThreads));
  }
  const auto [row, text] = find_device(device);
  return row->make(text, threads);
}

}  // namespace tessera
