// Declares the reasons for a plan's decisions, as text: gradient_checkpointing, update_in_backward, compile.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/passes/group_updates.h"
#include "plimsoll/planner.h"

namespace plimsoll {

/// Returns the reason for gradient_checkpointing if the job sets it on or off.
Reason fixed_reason(const PlanOptions& options, const Plan& plan);

/// Returns the reason for gradient_checkpointing: auto. `keep_all_peak`: peak of the keep-all plan in bytes. `fits`:
/// `plan` is within `budget` (bytes).
Reason recompute_reason(const Plan& plan, bool fits, int64_t keep_all_peak, std::optional<int64_t> budget);

/// Returns the reason for updates among backward ops. The plan has them.
Reason update_reason(const PlanOptions& options, const Plan& plan);

/// Returns the reason for fused ops. The plan has some.
Reason fusion_reason(const PlanOptions& options, const Plan& plan);

/// Returns the reason for exchanges between ranks that overlap other ops. The plan has some.
Reason overlap_reason(const PlanOptions& options, const Plan& plan);

/// Returns the reason for updates that are merged into groups.
Reason grouping_reason(const PlanOptions& options, const GroupedUpdates& grouped);

}  // namespace plimsoll
