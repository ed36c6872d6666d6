// Logical cores: which ones this process may run on, which of them share a physical core, and lists of them
// as Linux writes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Ascending; {0} where the system does not say.
std::vector<int> allowed_cores();

// Of allowed_cores() the first of each physical core, by the topology that Linux shows. Virtual machines may
// hide it: each is taken for a physical core of its own then.
std::vector<int> physical_cores();

// "0,2,4-7", in the order written. Error(bad_input) for anything else.
std::vector<int> parse_cores(std::string_view text);
std::string cores_text(const std::vector<int>& cores);  // the same form; runs of an ascending list as "A-B"

// From here on the calling thread and those it starts run on this core alone. Error(io) when the system
// refuses.
void run_on_core(int core);

}  // namespace tessera
