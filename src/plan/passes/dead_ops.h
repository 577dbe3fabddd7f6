// Removes ops whose results nobody reads.
//
// Runs before the searches, so that they do not weigh the cost of work that need not be done; after
// update_in_backward, which reads the order of ops as recorded.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// The trace without the ops that write only buffers which are neither persistent, nor outputs, nor read later. Ops
/// that draw random numbers may go as well: every draw has its own seed. Buffers keep their ids; update
/// pieces, which name ops by index, are dropped.
Trace remove_dead_ops(Trace trace);

}  // namespace plimsoll
