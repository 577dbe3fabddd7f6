// Declares the formats of optimizer state, weight updates and gradient accumulators that a training leaves to the
// planner.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/options.h"

namespace plimsoll {

/// Returns `options` with each possible value of the formats that are `automatic`, the most exact first, each with
/// fewer bytes than the previous one. Returns one if nothing is open. The planner uses the first with which the step
/// fits.
std::vector<TrainingOptions> format_choices(const TrainingOptions& options);

/// Returns "state_dtype 8bit, weight_update stochastic": the formats of `chosen` that `options` leave open.
std::string describe_formats(const TrainingOptions& options, const TrainingOptions& chosen);

}  // namespace plimsoll
