// Makes what initialisation throws away again just before it is used.
//
// Stands behind remove_dead_ops, whose leavings would be moved in vain, and before everything that asks when a buffer
// lives. A model is built first and quantised, cast or cut to pieces afterwards; recorded in that order all its full
// weights would live at once, and the peak of initialisation would be the budget of the run.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// Puts each op of the segment "initialize" that writes to nothing persistent directly before the first op there that
/// touches what it writes, with what it needs before it. What each op computes, and the random numbers that it draws,
/// stay as they are.
Trace initialise_late(Trace trace);

}  // namespace plimsoll
