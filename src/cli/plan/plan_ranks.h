// Reports the plan of one of several devices: the bytes that it sends to the others, and the speed of all of them
// together.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

/// Returns the exchanges of a step of the first epoch.
StepExchanges exchanges_of(const PlannedJob& planned);

/// Returns the strategy of the plan ("zero2"): the planner's decision, or the job's; empty for one device.
std::string strategy_of(const Job& job, const PlannedJob& planned);

/// Returns the tokens or samples per second of all devices together.
double units_per_second_of_all(const PlannedJob& planned);

/// Returns rows of the table of the step: name and text. Empty for one device. Times only if the plan fits.
std::vector<std::pair<std::string, std::string>> rank_rows(const Job& job, const PlannedJob& planned);

/// Adds "devices", "strategy", "link", "link_bytes_per_step", "exchange_seconds_per_step" and
/// "units_per_second_all_devices". "strategy" and "link" are null for one device; the last three are null for several
/// devices without exchanges in the plan.
void add_ranks(Json& json, const Job& job, const PlannedJob& planned);

}  // namespace plimsoll::cli
