// The device that the tests of group gpu run on, opened once.
#pragma once

#include <string>

#include "backend/backend.h"

namespace tessera {

// cuda:0; null where it is missing or has no compiler.
const Backend* gpu_device();
const std::string& why_no_gpu();
// The folder that holds cases/ and gpu/cases/: TESSERA_TEST_DATA, or the source tree's tests.
std::string test_data();

}  // namespace tessera
