// Declares the fixed recomputation strategies that a job can set: keep-all and block checkpointing.
//
// Keep-all keeps all saved values, so nothing is recomputed. Block checkpointing keeps only the input of each block.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/offload/offload_variants.h"
#include "plan/offload_planner.h"
#include "plan/schedule_builder.h"
#include "plimsoll/plan.h"

namespace plimsoll {

/// A fixed recomputation strategy of a step, with its plans for any budget.
class Treatment {
 public:
  /// Keeps references to `schedules` and `arrangements`, which is null if there is no host memory or disk. `at_once` is
  /// the plan that keeps `kept` and offloads nothing.
  Treatment(const Schedules& schedules, const Arrangements* arrangements, KeptValues kept, Plan at_once);
  Treatment(const Treatment&) = delete;
  Treatment& operator=(const Treatment&) = delete;

  const Plan& at_once() const { return at_once_; }
  /// Returns the plan of this strategy with the smallest peak on the device.
  const Plan& leanest() const;
  /// Returns the plan with the least step time within `budget`; if none fits, leanest().
  Plan plan(std::optional<int64_t> budget) const;
  /// Returns a lower bound of the step time in seconds over all plans of this strategy: copies only add time, and only
  /// updates may run on the host.
  double least_seconds() const { return schedules_.step_of(at_once_) - schedules_.update_seconds_saved(); }

 private:
  const Schedules& schedules_;
  const KeptValues kept_;
  const Plan at_once_;
  std::optional<OffloadPlanner> elsewhere_;
};

}  // namespace plimsoll
