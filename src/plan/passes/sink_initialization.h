// Declares the pass that runs initialization ops with temporary results just before these are used.
//
// It runs after remove_dead_ops, so that it moves no dead op, and before every pass that depends on lifetimes. A model
// is first built and then quantized, cast or sliced. In the recorded order all its full weights would be live at the
// same time, and the peak of initialization would set the budget of the run.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns the trace in which each op of segment `initialize` that writes no persistent buffer runs directly before the
/// first op there that uses its result. The ops that it depends on run before it. Results and random numbers do not
/// change.
Trace sink_initialization(Trace trace);

}  // namespace plimsoll
