// Folds casts into the ops that read their results.
//
// Runs first: updates in backward go by the gradients that are left. remove_dead_ops takes the casts out afterwards.
// Only exact casts are folded, from 16 bits to float32, so that every result is the same to the bit.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// In mixed precision the products of backward give a gradient in 16 bits, which autograd casts to float32 for the
/// optimizer. Norms and updates read gradients of any type: they are given the 16 bits, and the float32 copy, with two
/// thirds of the gradient's bytes, is gone. Gradients that are summed over micro batches keep their float32.
Trace fold_casts(Trace trace);

}  // namespace plimsoll
