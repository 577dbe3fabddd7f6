// Warns before the start about a job that pins a 16-bit precision that costs time.
#pragma once

#include <functional>

#include "plimsoll/plan_job.h"

namespace plimsoll {

/// Adds a note if the job pins a precision whose matmuls were measured on the target as no faster than float32's. The
/// job is then planned in 32-true as well; if that fits and is predicted to be faster, the settings' slow_matmul_note
/// and the reasons say so. If the target has no bfloat16 and the job pins it, they say that, and the time of 16-mixed
/// if that is less. Nothing else changes. Calls `on_schedule` as plan_job() does.
void note_slow_matmul(PlannedJob& planned, const Job& job, const PlanTarget& target,
                      const std::function<void()>& on_schedule);

}  // namespace plimsoll
