// Chooses the strategy of a job: which slices of the training state each rank stores.
#pragma once

#include <functional>

#include "plimsoll/plan_job.h"

namespace plimsoll {

/// Plans a job with `plan`, which is called with a job of one strategy. If the strategy is `auto`, returns the faster
/// of zero2 and zero3 that fits, or the one that needs less memory if neither fits. zero3 is planned only if zero2 does
/// not fit, fits only with recomputation or offload, or waits for exchanges that zero3 may hide. If it is used, it is
/// also planned with a part of the parameters whole. A reason says why. `ddp` and `zero1` are used only if the job
/// names them: zero2 stores less and sends as many bytes over the links in a step.
PlannedJob plan_strategies(const Job& job, const PlanTarget& target, const std::function<PlannedJob(const Job&)>& plan);

}  // namespace plimsoll
