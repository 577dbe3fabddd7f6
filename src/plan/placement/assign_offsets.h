// Declares the assignment of offsets to every buffer of a finished schedule.
//
// There is one arena on the device and, if buffers are offloaded there, one in host memory and one on disk.
#pragma once

#include "plimsoll/planner.h"

namespace plimsoll {

/// Sets the offsets, sizes, peak and breakdown of `plan` for its trace. Budgets, times and reasons stay as they are.
void assign_offsets(Plan& plan, const PlanOptions& options);
/// Returns a plan of `trace` with only these fields set.
Plan assign_offsets(Trace trace, const PlanOptions& options);

}  // namespace plimsoll
