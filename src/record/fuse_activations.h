// Declares the merging of activations with the norms before them, in a recorded step.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns the trace with SiLU or ReLU of a plimsoll::group_normalize computed by that op, if nothing else reads the
/// norm's result:
///
///     y = group_normalize(x);  z = silu(y)                              ->   z = group_normalize(x, silu)
///     dy = silu_backward(dz, y);  dx = group_norm_backward(dy, x)       ->   dx = group_norm_backward(dz, x, silu)
///
/// Backward computes y again from x, which it keeps anyway. Ops keep their indices: those that nothing needs any more
/// stay, and the planner removes them (remove_dead_ops).
Trace fuse_activations(Trace trace);

}  // namespace plimsoll
