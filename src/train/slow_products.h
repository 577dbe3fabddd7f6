// A job that pins a 16-bit precision where that costs time is told so before it starts.
#pragma once

#include <functional>

#include "plimsoll/train_job.h"

namespace plimsoll {

/// Where the job pins a precision whose products are no faster than float32's on the target, as measured, plans it in
/// 32-true as well; if that fits and is predicted to be faster, says so in the settings' slow_products and in the
/// reasons. Where the target has no bfloat16 and the job pins it, says that, and what 16-mixed would take if that is
/// less. Nothing else changes. `on_schedule` as plan_job() has it.
void tell_of_slow_products(PlannedJob& planned, const Job& job, const PlanTarget& target,
                           const std::function<void()>& on_schedule);

}  // namespace plimsoll
