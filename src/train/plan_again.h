// What a job is planned for once more, where memory that its plan counts on has gone since.
#pragma once

#include "plimsoll/error.h"
#include "plimsoll/train_job.h"

namespace plimsoll {

/// A target with less memory than what was refused, whatever the system says that there is: each time it is less. Of a
/// budget that the job states nothing is taken: throws MemoryUnavailable that says what to lower, and to how much.
PlanTarget smaller_target(const Job& job, const Plan& refused, const MemoryUnavailable& error);

}  // namespace plimsoll
