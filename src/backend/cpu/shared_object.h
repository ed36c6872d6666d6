// What a compiler must have made, before anything of it is cached or loaded.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// Why `bytes` are no whole ELF image of this kind of machine: mapping one that is cut short kills the process
// where it first touches what is missing. "": they are.
std::string why_not_shared_object(std::string_view bytes);

}  // namespace tessera
