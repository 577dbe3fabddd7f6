// Declares the fixed recomputation strategies that a job can set (keep-all and block checkpointing), and a counter
// of this process's searches for tests.
//
// Keep-all keeps all saved values, so nothing is recomputed. Block checkpointing keeps only the input of each block.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/offload_planner.h"
#include "plan/schedule_builder.h"
#include "plan/search/offload_search.h"
#include "plimsoll/plan.h"

namespace plimsoll {

/// A fixed set of kept values of one step, with its plans under any budget.
class FixedStrategy {
 public:
  /// Keeps references to `builder` and `variants`. `variants` is null if nothing can be offloaded. `kept` has the
  /// values that the strategy keeps; `without_offload` is the plan that keeps them and offloads nothing.
  FixedStrategy(const ScheduleBuilder& builder, const OffloadVariants* variants, KeptValues kept, Plan without_offload);
  FixedStrategy(const FixedStrategy&) = delete;
  FixedStrategy& operator=(const FixedStrategy&) = delete;

  const Plan& without_offload() const { return without_offload_; }
  /// Returns the plan of this strategy with the smallest peak on the device.
  const Plan& min_memory_plan() const;
  /// Returns without_offload() if it fits `budget` (nullopt: no limit). Otherwise returns the fastest plan found with
  /// offload; if none fits, min_memory_plan().
  Plan plan(std::optional<int64_t> budget) const;
  /// Returns a lower bound of the step time in seconds over all plans of this strategy. It is the time of
  /// without_offload(), less the time of updates that may run on the host. Offload shortens no other part of a step.
  double step_seconds_lower_bound() const {
    return builder_.step_seconds(without_offload_) - builder_.max_update_seconds_saved();
  }

 private:
  const ScheduleBuilder& builder_;
  const KeptValues kept_;
  const Plan without_offload_;
  std::optional<OffloadPlanner> offload_planner_;
};

/// Returns the number of Planners that this process has made. Safe from any thread.
int64_t searches_made();

}  // namespace plimsoll
