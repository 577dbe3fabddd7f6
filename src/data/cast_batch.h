// Batches in the type in which the device has them.
#pragma once

#include "data/batch.h"

namespace plimsoll {

/// Makes fields of float32 bfloat16, rounded to the nearest as a cast on the device would be, even where halfway; NaNs
/// stay NaNs. Other fields stay as they are.
void cast_to_bfloat16(Batch& batch);

}  // namespace plimsoll
