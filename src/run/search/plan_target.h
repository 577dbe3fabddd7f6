// Computes the default budget from the machine's memory, and warns about a 16-bit precision that is stated and costs
// time on it.
#pragma once

#include <cstdint>

#include "plimsoll/plan_training.h"

namespace plimsoll {

/// Returns the budget for `available` bytes: all but 10 %, which is for memory outside the arena: the program, the
/// data's batches, the page cache of its text.
int64_t less_margin(int64_t available);

/// Adds a note if the options state a precision whose matmuls were measured on the target as no faster than float32's.
/// The training is then planned in 32-true as well; if that fits and is predicted to be faster, the settings'
/// slow_matmul_note and the reasons say so. If the target has no bfloat16 and the options state it, they say that, and
/// the time of 16-mixed if that is less. Nothing else changes.
void note_slow_matmul(PlannedTraining& planned, const StepOfSize& step, const TrainingOptions& options,
                      const PlanTarget& target, const SearchOptions& search);

}  // namespace plimsoll
