// Declares the pass that removes ops whose results no op or caller reads.
//
// It runs before the searches, so that they do not count the cost of dead ops. It runs after update_in_backward, which
// reads the order of ops as recorded.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns the trace without ops that write only buffers that are neither persistent, nor outputs, nor read later. Ops
/// that draw random numbers may be removed too: every draw has its own seed. Buffers keep their ids. Update pieces,
/// which refer to ops by index, are dropped.
Trace remove_dead_ops(Trace trace);

}  // namespace plimsoll
