// A place for every buffer of a finished schedule: one arena on the device and, where something is moved there, one in
// host memory.
#pragma once

#include "plimsoll/plan.h"

namespace plimsoll {

/// Fills in the plan's offsets, sizes, peak and breakdown; budgets, times and reasons are left to the caller.
Plan lay_out(Trace trace, const PlanOptions& options);

}  // namespace plimsoll
