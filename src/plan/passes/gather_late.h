// Declares the pass that gathers sliced parameters at their first use, in a buffer of their own for each segment.
//
// The recorded trace gathers all parameters at the beginning of a segment, and copies the slices at the end of
// `initialize`. The pass runs before the searches: for recomputation a gathered parameter is a forward value like any
// other. A parameter that is not kept for backward is gathered again, at the cost of the exchange (FSDP's "reshard
// after forward", chosen parameter by parameter).
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns whether `trace` gathers any parameter.
bool gathers_parameters(const Trace& trace);

/// Returns the trace with each `plimsoll::gather_` moved to the first use of the parameter, which gets its own buffer
/// in each segment. In `initialize`, each copy of a slice is moved to the last op before it that makes its parameter.
/// `again_in_backward`: the parameter is gathered again before its first use in backward, and not kept between.
Trace gather_late(Trace trace, bool again_in_backward);

}  // namespace plimsoll
