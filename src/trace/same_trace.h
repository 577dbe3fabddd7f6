// Compares traces: whether a pass changed anything, whether two runs of the passes gave the same.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// Whether two traces have the same buffers, ops, segments, names and constants. An op's call counts only as present or
/// absent, because a pass that merges ops makes a new object each time. Update pieces do not count: they describe the
/// recorded segment `update`.
bool same_trace(const Trace& a, const Trace& b);

}  // namespace plimsoll
