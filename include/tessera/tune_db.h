// Measured winners: what `tessera tune` stored, for a dispatcher to use before its policy is asked.
#pragma once

#include <memory>
#include <string>

#include "tessera/dispatcher.h"

namespace tessera {

// TESSERA_DB ("none": no database), else tune.sqlite in the user's cache directory; "" when there is neither.
std::string default_tune_db();

// The decisions stored in a database of measurements, read once, now. A missing file holds none. What cannot
// be read is warned about once and counts as holding none, unless `must_read`: then Error(io) or
// Error(corrupt). A database that another process has locked is waited for half a second, with `must_read`
// ten.
std::shared_ptr<const Decisions> open_decisions(const std::string& path = default_tune_db(),
                                                bool must_read = false);

}  // namespace tessera
