// How a training is planned: one answer for a plan alone and for the run, so that the one is what the other does.
#pragma once

#include <memory>

#include "plimsoll/plan.h"
#include "plimsoll/training.h"

namespace plimsoll {

class Backend;
class LearnedWorkspace;
class MeasureAllowance;

/// CPU threads that kernels run on.
int threads_of(const TrainingOptions& options);

/// The budget, the user's choices, and the scratch that the device's kernels are known to take by rule. `here`: the
/// device that the plan is for, where it is one of this machine; nullptr: it may be any of its kind, and what this
/// machine has does not count. `allowance`: what the scratch of CPU kernels may be measured with
/// (device/cpu_workspace.h); nullptr: the run is about to take the memory.
PlanOptions plan_options_of(const TrainingOptions& options, const Backend* here,
                            std::shared_ptr<MeasureAllowance> allowance = nullptr);

/// The same with scratch as it was found out by running kernels.
PlanOptions with_learned(PlanOptions options, const LearnedWorkspace& workspace);

}  // namespace plimsoll
