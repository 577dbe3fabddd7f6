// A place for every buffer of a finished schedule: one arena on the device and, where something is moved there, one in
// host memory.
#pragma once

#include "plimsoll/plan.h"

namespace plimsoll {

/// Sets the offsets, sizes, peak and breakdown of `plan` for its trace. Budgets, times and reasons stay as they are.
void lay_out(Plan& plan, const PlanOptions& options);
/// Returns a plan of `trace` with these alone.
Plan lay_out(Trace trace, const PlanOptions& options);

}  // namespace plimsoll
