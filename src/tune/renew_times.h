// Stored times brought up to date by a later sweep of a part of the problems.
#pragma once

#include "tune/training_data.h"

namespace tessera {

struct Renewal {
  size_t added = 0;     // problems that were not there
  size_t renewed = 0;   // problems that were
  size_t levelled = 0;  // times of theirs that the later sweep lacks, brought to its level
  double level = 1;     // the new times of all configurations measured twice over the old ones, the median
};

// What `newer` has of a problem takes the place of what `data` has. A machine has not the same speed on two
// days, nor has a kernel whose source changed: a time that `newer` lacks is multiplied by the median ratio of
// the times that both have, of the same problem and family where there are such, else of the problem, else of
// the family in all problems, else of all. Error(bad_input) when architecture, units or operation differ.
// Without `level` such a time stays as it was: where `newer` has what changed, and the machine is as fast as
// then.
Renewal renew(TrainingData& data, const TrainingData& newer, bool level = true);

}  // namespace tessera
