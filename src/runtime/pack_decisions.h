// What packs say was chosen, to a dispatcher that asks for decisions.
#pragma once

#include <memory>
#include <span>

#include "runtime/pack.h"
#include "tessera/dispatcher.h"

namespace tessera {

// Decisions that are `own`'s where it has one (measured on this machine), else the first pack's that has one
// for the architecture, the number of cores or compute units and the problem. `own` may be null, and is what
// is returned where no pack has any; it keeps what is measured.
std::shared_ptr<const Decisions> with_packs(std::shared_ptr<const Decisions> own,
                                            std::span<const std::shared_ptr<const Pack>> packs);

}  // namespace tessera
