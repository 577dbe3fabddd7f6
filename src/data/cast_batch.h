// Declares the conversion of batches to the dtype in which the device stores them.
#pragma once

#include "data/batch.h"

namespace plimsoll {

/// Converts fields of float32 to bfloat16. Values are rounded to the nearest, ties to even, as a cast on the device
/// rounds them; NaNs stay NaNs. Other fields are not changed.
void cast_to_bfloat16(Batch& batch);

}  // namespace plimsoll
