// An independent, deliberately naive check of a plan.
//
// It knows nothing of lifetimes. It walks through the segments as training runs them, keeps a map of which buffer owns
// which bytes of the arena, and finds an op that reads bytes which somebody else has written over, or nobody has
// written.
#pragma once

#include <string>

#include "plimsoll/plan.h"

namespace plimsoll {

/// Empty if the plan is sound: every op reads only what was written and not overwritten, nothing lies outside the
/// arena, an op's operands and workspace do not overlap unless they are the same buffer, the host's outputs survive
/// their segment, and peak_bytes <= budget_bytes if the plan says that it fits. Otherwise one sentence that names op
/// and buffer.
std::string find_fault(const Plan& plan);

}  // namespace plimsoll
