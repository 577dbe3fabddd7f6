// Removes ops whose results nobody reads.
//
// Runs first, so that no later pass weighs the cost of work that need not be done.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// The trace without the ops that write only buffers which are neither persistent, nor outputs, nor read later. Ops
/// that draw random numbers may go as well: every draw has its own seed. Buffers keep their ids.
Trace remove_dead_ops(Trace trace);

}  // namespace plimsoll
