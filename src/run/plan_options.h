// Declares the planner options of a training. A plan alone and a run use the same options, so that they get the same
// plan.
#pragma once

#include <memory>

#include "plimsoll/planner.h"
#include "plimsoll/training.h"

namespace plimsoll {

class Backend;
class MeasuredWorkspace;
class MeasureAllowance;

/// Returns the number of CPU threads that kernels run on.
int threads_of(const TrainingOptions& options);

/// Returns the budget, the user's choices, and the scratch that the device's kernels are known to allocate by rule.
/// `here`: the device of the plan, if it is one of this machine; nullptr: any device of its kind, so that properties of
/// this machine do not count. `allowance` limits the measurement of CPU scratch (device/kernel_scratch.h); nullptr: the
/// run is about to allocate the memory.
PlanOptions plan_options_of(const TrainingOptions& options, const Backend* here,
                            std::shared_ptr<MeasureAllowance> allowance = nullptr);

/// Returns `options` with the scratch that was measured by running kernels.
PlanOptions with_measured(PlanOptions options, const MeasuredWorkspace& workspace);

}  // namespace plimsoll
