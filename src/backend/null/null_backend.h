// Plans for an architecture without its device: selection, rules and generated text work, running is refused.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace tessera {

std::unique_ptr<Backend> make_null_backend(std::string_view arch, int threads);

}  // namespace tessera
