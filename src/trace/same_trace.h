// Declares the comparison of two traces, which finds out if a pass changed anything.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns whether two traces have the same buffers, ops, segments, names and constants. An op's call counts only as
/// present or absent, because a pass that merges ops makes a new object each time. Update pieces are ignored: they
/// describe the recorded segment `update`.
bool same_trace(const Trace& a, const Trace& b);

}  // namespace plimsoll
