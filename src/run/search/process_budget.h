// Declares the plan of a training whose whole process has a budget of resident memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "plimsoll/plan_training.h"

namespace plimsoll {

/// Returns what `plan` makes of the target with a budget for its arenas that the process budget leaves: without what
/// the process has resident and `target.later_bytes`. What planning itself keeps is known when it is done, so a plan
/// that exceeds the process budget by that is made again for less. If none is small enough, `fits` is false;
/// PlannedStep::process has the smallest process budget. Without a process budget, or for a device that is not of this
/// machine: plan(target).
PlannedTraining plan_within_process(const PlanTarget& target,
                                    const std::function<PlannedTraining(const PlanTarget&)>& plan);

/// Returns the bytes that the training allocates later than its planning, apart from arenas and data.
int64_t later_bytes_of(const ResolvedSettings& settings);

/// Throws UserError (does_not_fit), with the smallest process budget, if the process has no room for `bytes` more,
/// which `what` takes. Has no effect without a process budget.
void require_process_room(const Budget& budget, int64_t bytes, const std::string& what, const std::string& advice);

/// Returns true if the search must keep no more than one candidate, because the process already has three quarters of
/// its budget resident.
bool is_tight(const Budget& budget);

/// Returns the bytes of resident memory that options.budget.process allows. `auto`: what this process has and its share
/// of nine tenths of what the machine, or its control group, has free, for `sharing` processes; at most its share of
/// the group's limit.
int64_t process_limit_of(const Budget& budget, int64_t sharing = 1);

}  // namespace plimsoll
