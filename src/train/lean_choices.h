// Formats of optimizer state, of weights' updates and of gradient accumulators that a job leaves to the planner.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/job.h"

namespace plimsoll {

/// Which formats a job trains with; none of them `automatic`.
struct LeanChoice {
  StateDtype state_dtype = StateDtype::as_parameters;
  WeightUpdate weight_update = WeightUpdate::stochastic;
  AccumulatorDtype accumulator_dtype = AccumulatorDtype::as_gradients;

  bool operator==(const LeanChoice&) const = default;
};

/// Whether anything is left open.
bool leaves_formats_open(const Job& job);

/// What the job's `auto` may stand for, the most exact first, each with less bytes than the one before. One, if nothing
/// is open. The planner takes the first with which the job fits.
std::vector<LeanChoice> lean_choices(const Job& job);

/// The job with that choice.
Job with(Job job, const LeanChoice& choice);

/// "state_dtype 8bit, weight_update stochastic": what of the choice the job had left open.
std::string in_words(const Job& job, const LeanChoice& choice);

}  // namespace plimsoll
