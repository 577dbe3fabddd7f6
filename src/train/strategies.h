// The choice of what each of several ranks stores.
#pragma once

#include <functional>

#include "plimsoll/train_job.h"

namespace plimsoll {

/// Plans a job with `plan`, which is called with a job of one strategy. Where the strategy is `auto` the faster of
/// zero2 and zero3 that fits, or the one that needs less memory; zero3 is planned only if zero2 does not fit, or only
/// with recomputation or offload, and if zero3 is taken also with a part of the parameters whole. A reason says why.
/// `ddp` and `zero1` are chosen by name only: zero2 stores less, and what it sends over the links in a step is what
/// they send.
PlannedJob plan_strategies(const Job& job, const PlanTarget& target, const std::function<PlannedJob(const Job&)>& plan);

}  // namespace plimsoll
