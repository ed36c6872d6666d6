// How quickly a K-contiguous B is packed, beside memcpy of the same bytes.
#pragma once

#include "tessera/json.h"

// Prints and returns a row for each type: B of 2048 x 2048 packed ahead as a whole, and B from the last-level
// cache a panel at a time into L2, as products do.
tessera::Json measure_packing();
