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

/// Runs a step of `plan` on the CPU several times, on `threads` threads and in the memory that the plan states, and
/// returns each op's seconds, by index, the mean of the middle half of the steps. Floating-point inputs are drawn,
/// integers are 0, and every sample counts. Each segment runs once a step. An op by itself reads operands from a cache
/// of this core; in a step, they are where other ops, on other cores, left them.
///
/// Returns an empty list if the plan's arena is larger than `bytes`, if the machine does not have the plan's memory, or
/// if the plan keeps values on disk or needs other ranks; if a kernel refuses the inputs, or they give gradients that
/// are not finite, whose updates are skipped; and if four steps are predicted, or turn out, to take more than `seconds`
/// on measuring_machine().
std::vector<OpInStep> try_step(const Plan& plan, const StepShape& shape, int threads, double seconds, int64_t bytes);

}  // namespace plimsoll
