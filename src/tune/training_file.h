// Measurements as the tree keeps them: the times that a model is trained and judged on, in one small text.
#pragma once

#include <string>
#include <string_view>

#include "tune/training_data.h"

namespace tessera {

// A line of JSON that says what was measured on what; a line for each configuration; and for each problem a
// line with its text and one with "configuration microseconds" pairs, configurations by number from 0. Times
// have five digits. Failures are not in it.
std::string to_text(const TrainingData& data);

// Error(bad_input) naming `origin` and the line.
TrainingData parse_training_data(std::string_view text, std::string_view origin);

}  // namespace tessera
