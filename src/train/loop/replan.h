// Plans a job again if memory that its plan needs is no longer available.
#pragma once

#include "plimsoll/error.h"
#include "plimsoll/train_job.h"

namespace plimsoll {

/// Returns a target with less memory than `planned` was refused, whatever the system reports as available, so that
/// repeated calls decrease. A budget that the job states is not reduced: throws MemoryUnavailable that says which
/// budget to lower, and to which value, or BudgetUnavailable if no plan of the job needs as little as there is.
PlanTarget replan_target(const Job& job, const PlannedStep& planned, const MemoryUnavailable& error);

}  // namespace plimsoll
