// The CUDA backend: units compiled by NVRTC, run through the driver library; both are found at run time.
#pragma once

#include <memory>
#include <string_view>

#include "backend/backend.h"

namespace tessera {

// `ordinal`: the text after "cuda:"; "" is device 0. Error(bad_input) on what is no number of a device.
int cuda_ordinal(std::string_view ordinal);
std::unique_ptr<Backend> make_cuda_backend(std::string_view ordinal, int threads);

}  // namespace tessera
