// What the arithmetic units of one core can do: loops of nothing but one instruction, or a register tile of
// it.
#pragma once

#include <string>
#include <vector>

struct Peak {
  std::string name;  // "fma", "fma_tile" (with the loads of a register tile), "dpbf16", "vnni", "amx_bf16",
                     // "amx_int8"
  double gops = 0;   // 1e9 operations per second, two per multiply-add; of the best moment
  void (*loop)(int repeats) = nullptr;
  double ops = 0;  // of one repeat
};

// Of the instructions this processor has.
std::vector<Peak> measure_peaks();
