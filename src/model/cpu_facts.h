// What the costs of CPU configurations have in common.
#pragma once

#include "core/arch_spec.h"

namespace tessera {

// What all configurations of a view share that have the same instruction and operands exchanged or not.
struct CpuFacts {
  const Instruction* inst = nullptr;
  bool swapped = false;

  double issue_per_cycle = 0, lanes = 0;
  bool halves = false;  // half a vector is issued in half the time
  int group = 1;        // elements of k in a word
  // The operand that supplies rows of C as the kernel sees it, and the one that supplies columns: whether its
  // elements are converted, their bytes, whether k is contiguous, and what copying and gathering all of it
  // costs.
  struct Side {
    bool converts = false, along_k = false;
    double size = 0, copied = 0, gathered = 0;
  } left, right;
  double far_at_hand = 0, far_known = 0;  // shares of steps of the left operand, see ProductTerms::far_rows
  bool paged = false;                     // its rows lie whole pages apart
  double pages_of_rows = 0;
  double read_a = 0, read_b = 0, read_c = 0, read_words_b = 0;
};

}  // namespace tessera
