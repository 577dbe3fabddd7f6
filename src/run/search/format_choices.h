// Declares the formats of optimizer state, weight updates and gradient accumulators that a training leaves to the
// planner.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/options.h"

namespace plimsoll {

/// Formats of a training; none of them is `automatic`.
struct FormatChoice {
  StateDtype state_dtype = StateDtype::as_parameters;
  WeightUpdate weight_update = WeightUpdate::stochastic;
  AccumulatorDtype accumulator_dtype = AccumulatorDtype::as_gradients;

  bool operator==(const FormatChoice&) const = default;
};

/// Returns the possible values of the formats that are `automatic`, the most exact first, each with fewer bytes than
/// the previous one. Returns one if nothing is open. The planner uses the first with which the step fits.
std::vector<FormatChoice> format_choices(const TrainingOptions& options);

/// Returns the options with that choice.
TrainingOptions with_formats(TrainingOptions options, const FormatChoice& choice);

/// Returns the formats of options.
FormatChoice formats_of(const TrainingOptions& options);

/// Returns "state_dtype 8bit, weight_update stochastic": the parts of the choice that `options` leave open.
std::string describe_formats(const TrainingOptions& options, const FormatChoice& choice);

}  // namespace plimsoll
