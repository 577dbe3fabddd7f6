// Why a plan's decisions are as they are, in words: gradient_checkpointing, update_in_backward, compile.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/passes/group_updates.h"
#include "plimsoll/plan.h"

namespace plimsoll {

/// Of gradient_checkpointing where the job set it on or off.
Reason pinned_reason(const PlanOptions& options, const Plan& plan);

/// Of gradient_checkpointing: auto. `whole_peak`: bytes of the step that recomputes nothing; `fits`: whether `plan` is
/// within `budget` (bytes).
Reason recompute_reason(const Plan& plan, bool fits, int64_t whole_peak, std::optional<int64_t> budget);

/// Of updates among backward ops, where the plan has them.
Reason update_reason(const PlanOptions& options, const Plan& plan);

/// Of ops that run as one, where the plan has such.
Reason fusing_reason(const PlanOptions& options, const Plan& plan);

/// Returns the reason for exchanges between ranks that run beside other ops. The plan has some.
Reason overlap_reason(const PlanOptions& options, const Plan& plan);

/// Of updates that run as one.
Reason grouping_reason(const PlanOptions& options, const GroupedUpdates& grouped);

}  // namespace plimsoll
