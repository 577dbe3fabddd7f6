// Declares trials of a step: the seconds of each op as a training runs it.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/plan.h"

namespace plimsoll {

/// The number of micro batches of a step, and whether the last of several is smaller.
struct StepShape {
  int64_t micro_batches = 1;
  bool ragged = false;
};

/// The seconds of an op in a step, and the number of its runs there.
struct OpInStep {
  double seconds = 0;
  int64_t runs = 0;  ///< 0: a step does not run the op
};

/// Runs a step of `plan` on the CPU several times, in the memory that the plan states and on numbers drawn at random,
/// and returns each op's seconds, by index, the mean of the two shortest steps. Each segment runs once a step. An op by
/// itself reads operands from a cache of this core; in a step, they are where other ops, on other cores, left them.
///
/// Returns an empty list if the plan takes more than `bytes`, keeps values on disk, or needs other ranks; if a kernel
/// refuses the numbers, or they give gradients that are not finite, whose updates are skipped; and if `seconds` on
/// measuring_machine() are over before four steps are done.
std::vector<OpInStep> try_step(const Plan& plan, const StepShape& shape, double seconds, int64_t bytes);

}  // namespace plimsoll
