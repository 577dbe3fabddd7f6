// What a run really took, in the parts that its plan was made of.
#pragma once

#include "plimsoll/plan.h"
#include "plimsoll/training.h"

namespace plimsoll {

/// The planned parts, made to add up to use.measured_peak(). Tensors lie where they were planned, so parts differ from
/// the plan by what was counted only: more is scratch, and less is taken off the gaps first, then off the scratch, then
/// off the activations.
Breakdown measured_breakdown(const Breakdown& planned, const MemoryUse& use);

}  // namespace plimsoll
