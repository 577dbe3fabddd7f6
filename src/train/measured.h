// What a run really took, in the parts that its plan was made of.
#pragma once

#include "plimsoll/plan.h"
#include "plimsoll/training.h"

namespace plimsoll {

/// The planned parts with what was used of them; they add up to use.measured_peak(). Tensors lie where they were
/// planned. Scratch is what was planned in the arena and what kernels took from the heap beside it. Bytes at the
/// arena's end that no op touched are taken off the gaps first, then off the scratch, then off the activations.
Breakdown measured_breakdown(const Breakdown& planned, const MemoryUse& use);

}  // namespace plimsoll
