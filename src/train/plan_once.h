// Declares the plan of a job without what plan_job() does afterwards.
#pragma once

#include "plimsoll/plan_job.h"

namespace plimsoll {

/// Plans the job as plan_job() does, but measures no op times again and compares no precisions: for plans of changed
/// jobs, whose unchanged job plan_job() has planned.
PlannedJob plan_once(const Job& job, const PlanTarget& target, const SearchOptions& search = {});

}  // namespace plimsoll
