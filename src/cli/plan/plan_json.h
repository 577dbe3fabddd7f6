// Formats the result of `plimsoll plan` as JSON.
#pragma once

#include "cli/json_output.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

/// Returns the plan of a job; docs/command-line.md lists the fields.
Json plan_json(const Job& job, const PlannedJob& planned);

/// Returns [{"budget_bytes", "peak_bytes", "step_seconds", "choices", "fits"}, …].
Json frontier_json(const std::vector<FrontierPoint>& frontier);

}  // namespace plimsoll::cli
