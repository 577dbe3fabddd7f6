// Computes the memory that a run used, in the parts of its plan.
#pragma once

#include "plimsoll/plan.h"
#include "plimsoll/training.h"

namespace plimsoll {

/// Returns the planned parts, adjusted so that they add up to use.measured_peak(). Tensors are at their planned
/// offsets, so parts differ from the plan only by counted allocations. An excess is scratch; a shortfall is subtracted
/// from the gaps, then from the scratch, then from the activations.
Breakdown measured_breakdown(const Breakdown& planned, const MemoryUse& use);

}  // namespace plimsoll
