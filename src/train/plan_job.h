// Declares the plan of a job without what plan_job() does afterwards, and the exception that ends a search when its
// caller stops it.
#pragma once

#include "plimsoll/plan_job.h"

namespace plimsoll {

/// Plans the job as plan_job() does, but measures no op times again and compares no precisions: for plans of changed
/// jobs, whose unchanged job plan_job() has planned.
PlannedJob plan_once(const Job& job, const PlanTarget& target, const SearchOptions& search = {});

/// Thrown through the planner when the caller's function requests a stop; the search then returns what it has found.
struct SearchStopped {};

}  // namespace plimsoll
