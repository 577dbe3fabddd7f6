// Declares the planner that uses host memory and disk. It decides first how much optimizer state, gradients and
// parameters are offloaded, and then for each saved value whether it is kept, recomputed or offloaded.
//
// A `fraction` is the amount of offload, counted in kinds of buffers (plan/search/offload_candidates.h).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "plan/schedule_builder.h"
#include "plan/search/offload_search.h"
#include "plimsoll/planner.h"

namespace plimsoll {

/// A planner that offloads buffers of one step.
class OffloadPlanner {
 public:
  /// Keeps references to all arguments. `fixed`: the kept values of a fixed strategy; null: the planner chooses them.
  OffloadPlanner(const ScheduleBuilder& builder, const OffloadVariants& variants, const KeptValues* fixed);

  /// Returns the plan with the smallest peak on the device; nullopt: every plan that was tried needs more host
  /// memory than the budget has.
  const std::optional<Plan>& min_memory_plan() const { return min_memory_plan_; }

  /// Returns whether a plan that keeps `kept` may fit `budget` bytes. The check is optimistic: it offloads as much as
  /// host memory and disk hold, and counts live bytes, although placement may need more.
  bool may_fit(const KeptValues& kept, int64_t budget) const;

  /// Returns the plan with the least step time within `budget` bytes, if it is faster than `best` or `best` does not
  /// fit; otherwise `best`. min_memory_plan() must have a value.
  Plan choose(int64_t budget, Plan best) const;

 private:
  std::optional<Plan> min_memory_plan_with(double fraction, bool host_updates, bool without_block_checkpointing) const;
  bool block_checkpointing_needs_less_memory(double fraction) const;

  const PlanOptions& options_;
  const ScheduleBuilder& builder_;
  const OffloadVariants& variants_;
  const KeptValues* const fixed_;
  std::optional<Plan> min_memory_plan_;
  // Smallest peak, in bytes, of a plan without block checkpointing.
  int64_t min_peak_without_block_checkpointing_ = std::numeric_limits<int64_t>::max();
};

}  // namespace plimsoll
