// Declares the pass that folds casts into the ops that read their results.
//
// It runs first: updates in backward depend on the remaining gradients. remove_dead_ops removes the casts afterwards.
// Only exact casts are folded, from 16 bits to float32, so every result is bit-equal.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns the trace with casts of gradients folded into norms and updates. In mixed precision the backward matmuls
/// return 16-bit gradients, which autograd casts to float32 for the optimizer. Norms and updates read gradients of any
/// dtype, so they get the 16-bit gradient. The float32 copy, two thirds of the gradient's bytes, is dropped. Gradients
/// that are summed over micro batches stay float32.
Trace fold_casts(Trace trace);

}  // namespace plimsoll
