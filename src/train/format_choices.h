// Declares the formats of optimizer state, weight updates and gradient accumulators that a job leaves to the planner.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/job.h"

namespace plimsoll {

/// Formats that a job trains with; none of them is `automatic`.
struct FormatChoice {
  StateDtype state_dtype = StateDtype::as_parameters;
  WeightUpdate weight_update = WeightUpdate::stochastic;
  AccumulatorDtype accumulator_dtype = AccumulatorDtype::as_gradients;

  bool operator==(const FormatChoice&) const = default;
};

/// Returns true if the job leaves a format to the planner.
bool has_open_formats(const Job& job);

/// Returns the possible values of the job's `auto`, the most exact first, each with fewer bytes than the previous one.
/// Returns one if nothing is open. The planner uses the first with which the job fits.
std::vector<FormatChoice> format_choices(const Job& job);

/// Returns the job with that choice.
Job with_formats(Job job, const FormatChoice& choice);

/// Returns "state_dtype 8bit, weight_update stochastic": the parts of the choice that the job left open.
std::string describe_formats(const Job& job, const FormatChoice& choice);

}  // namespace plimsoll
