// How a training is planned: one answer for a plan alone and for the run, so that the one is what the other does.
#pragma once

#include "plimsoll/plan.h"
#include "plimsoll/training.h"

namespace plimsoll {

/// CPU threads that kernels run on.
int threads_of(const TrainingOptions& options);

/// The budget, the user's choices, and the scratch that the device's kernels are known to take: by rule on the CPU; on
/// other devices none is known before a run on them.
PlanOptions plan_options_of(const TrainingOptions& options);

}  // namespace plimsoll
