// Declares the reasons for a plan's decisions as text: gradient_checkpointing, update_in_backward, compile,
// recomputation and offload.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/passes/passes.h"
#include "plan/passes/training_graph.h"
#include "plimsoll/plan.h"
#include "plimsoll/planner.h"

namespace plimsoll {

/// Returns the reason for gradient_checkpointing if the job sets it on or off.
Reason fixed_reason(const PlanOptions& options, const Plan& plan);

/// Returns the reason for gradient_checkpointing: auto. `keep_all_peak`: peak of the keep-all plan in bytes. `fits`:
/// `plan` is within `budget` (bytes).
Reason recompute_reason(const Plan& plan, bool fits, int64_t keep_all_peak, std::optional<int64_t> budget);

/// Returns the reason for updates among backward ops. The plan has them.
Reason update_reason(const PlanOptions& options, const Plan& plan);

/// Returns the reason for losses in chunks of rows. `less`: bytes by which the peak of the keep-all plan is lower.
Reason loss_rows_reason(const std::vector<SlicedHead>& heads, int64_t less);

/// Returns the reason for fused ops. The plan has some.
Reason fusion_reason(const PlanOptions& options, const Plan& plan);

/// Returns the reason for exchanges between ranks that overlap other ops. The plan has some.
Reason overlap_reason(const PlanOptions& options, const Plan& plan);

/// Returns the reason for `grown` ops of `plan` with more scratch than in `before`.
Reason scratch_reason(const Plan& before, const Plan& plan, int64_t grown);

/// Returns the reason for updates that are merged into groups.
Reason grouping_reason(const PlanOptions& options, const GroupedUpdates& grouped);

/// Returns one reason for each kind of recomputed value, those with most bytes first. Values with the same name in
/// different blocks are one kind. At most `max_reasons` reasons; the last one has the sum of all remaining kinds.
std::vector<Reason> explain_recomputation(const Trace& trace, const TrainingGraph& graph, const KeptValues& kept,
                                          size_t max_reasons);

/// Returns the reasons why saved values (`offloaded`, by value) and state are in host memory under `plan`. The times
/// and bytes of `plan` must be set.
std::vector<Reason> explain_offload(const Trace& trace, const TrainingGraph& graph, const std::vector<char>& offloaded,
                                    const CostModel& cost, const Plan& plan);

}  // namespace plimsoll
