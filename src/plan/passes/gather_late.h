// Gathers parameters of which each rank stores a slice when they are first used, in memory of their own for each
// segment.
//
// Recorded are gathers of all parameters at the beginning of a segment, and at the end of `initialize` the copies of
// the slices. Runs before the searches: for recomputation a gathered parameter is a value of forward like others. What
// is not kept for backward is gathered again, and its time is that of the exchange (FSDP's "reshard after forward",
// chosen parameter by parameter).
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// Whether `trace` gathers any.
bool gathers_parameters(const Trace& trace);

/// Moves each `plimsoll::gather_` to the first use of what it gathers, which gets a buffer of its own in each segment,
/// and each copy of a slice in `initialize` to the last op before it that makes its parameter. `again_in_backward`: the
/// parameter is gathered a second time before its first use in backward, and not kept between.
Trace gather_late(Trace trace, bool again_in_backward);

}  // namespace plimsoll
