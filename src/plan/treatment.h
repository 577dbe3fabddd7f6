// One way with saved values that a job may pin: of each block its input alone, or everything, is kept.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/offload/arrangement.h"
#include "plan/offload_planner.h"
#include "plan/schedules.h"
#include "plimsoll/plan.h"

namespace plimsoll {

class Treatment {
 public:
  /// `at_once`: the plan that keeps those and moves nothing; `arrangements`: null where there is no other memory. What
  /// is referred to must outlive this.
  Treatment(const Schedules& schedules, const Arrangements* arrangements, KeptValues kept, Plan at_once);
  Treatment(const Treatment&) = delete;
  Treatment& operator=(const Treatment&) = delete;

  const Plan& at_once() const { return at_once_; }
  /// The plan that takes least on the device.
  const Plan& leanest() const;
  /// The least time of a step within `budget`; where nothing fits, leanest().
  Plan plan(std::optional<int64_t> budget) const;
  /// No plan of this treatment takes fewer seconds a step: copies take time, and only updates may run on the host.
  double least_seconds() const { return schedules_.step_of(at_once_) - schedules_.update_seconds_saved(); }

 private:
  const Schedules& schedules_;
  const KeptValues kept_;
  const Plan at_once_;
  std::optional<OffloadPlanner> elsewhere_;
};

}  // namespace plimsoll
