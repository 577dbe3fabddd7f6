// Declares an independent, deliberately simple check of a plan.
//
// It does not use lifetimes. It runs the segments in the order of training and keeps a map from bytes of the arena to
// the buffer that owns them. It finds an op that reads bytes which no op has written, or which another buffer has
// overwritten.
#pragma once

#include <string>

#include "plimsoll/plan.h"

namespace plimsoll {

/// Returns the first fault of a plan as one sentence that names op and buffer; empty: the plan is sound. Sound means:
/// every op reads only what was written and not overwritten. No buffer exceeds the arena. An op's operands and
/// workspace do not overlap unless they are the same buffer. The host's outputs survive their segment. peak_bytes <=
/// budget_bytes if the plan says that it fits.
std::string find_fault(const Plan& plan);

}  // namespace plimsoll
