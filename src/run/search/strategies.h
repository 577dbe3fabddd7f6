// Chooses the strategy of a training: which slices of the training state each rank stores.
#pragma once

#include <functional>

#include "run/search/found.h"

namespace plimsoll {

/// Plans a training of several ranks with `plan`, which is called with options of one strategy. If the strategy is
/// `automatic`, returns the faster of zero2 and zero3 that fits, or the one that needs less memory if neither fits.
/// zero3 is planned only if zero2 does not fit, fits only with recomputation or offload, or waits for exchanges that
/// zero3 may hide. If it is used, it is also planned with a part of the parameters whole. A reason says why. `ddp` and
/// `zero1` are used only if the options name them: zero2 stores less and sends as many bytes over the links in a step.
Found choose_strategy(const TrainingOptions& options, const Budget& budget, bool minimize_step_time,
                      const std::function<Found(const TrainingOptions&)>& plan);

}  // namespace plimsoll
