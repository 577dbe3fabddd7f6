// The files that a training run writes, tried before it.
#pragma once

#include "plimsoll/job.h"

namespace plimsoll {

/// Makes the checkpoints' folder and finds out whether checkpoints and metrics can be written; leaves no file. What
/// cannot be saved should not be trained. Throws UserError (failure; usage where the metrics are one of data.files).
void prepare_outputs(const Job& job);

}  // namespace plimsoll
