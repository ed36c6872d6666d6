// Convolutions whose tensors have their channels first, by a kernel that wants them last: some images at a
// time are brought into its order, and so are what it reads beside them and its result.
#pragma once

#include <functional>
#include <memory>

#include "tessera/kernel.h"

namespace tessera {

// make: the kernel of a channels_last problem, of the same unit and choice whatever its number of images.
std::unique_ptr<Kernel> make_channels_first(
    const Problem& problem, const Choice& choice, int threads,
    const std::function<std::unique_ptr<Kernel>(const Problem&)>& make);

}  // namespace tessera
