// Declares the assignment of offsets to every buffer of a finished schedule, with the breakdown of its bytes. Finds
// the ranges of the arena without a live buffer while an op runs.
//
// There is one arena on the device and, if buffers are offloaded there, one in host memory and one on disk.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/plan.h"
#include "plimsoll/planner.h"

namespace plimsoll {

/// Sets the offsets, sizes, peak and breakdown of `plan` for its trace. Budgets, times and reasons stay as they are.
void assign_offsets(Plan& plan, const PlanOptions& options);
/// Returns a plan of `trace` with only these fields set.
Plan assign_offsets(Trace trace, const PlanOptions& options);

/// Adds a buffer's bytes to the part of a breakdown that its role belongs to.
inline void add_to_breakdown(Breakdown& breakdown, Role role, int64_t bytes) {
  switch (role) {
    case Role::parameter:
      breakdown.parameters += bytes;
      break;
    case Role::gradient:
      breakdown.gradients += bytes;
      break;
    case Role::optimizer_state:
      breakdown.optimizer_state += bytes;
      break;
    case Role::activation:
    case Role::temporary:
      breakdown.activations += bytes;
      break;
    case Role::input:
      breakdown.inputs += bytes;
      break;
    case Role::workspace:
      breakdown.workspace += bytes;
      break;
  }
}

/// A byte range of the arena, [offset, offset + bytes), without a live buffer while an op runs. A kernel whose scratch
/// was not planned may use it instead of memory outside the arena.
struct FreeGap {
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// Returns for each op the largest range without a live buffer or planned workspace of the op; 0 bytes if there is
/// none.
std::vector<FreeGap> largest_free_gaps(const Plan& plan);

}  // namespace plimsoll
