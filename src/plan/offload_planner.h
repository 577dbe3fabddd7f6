// Plans that use host memory and the disk: how much lies elsewhere from step to step, and with that what to recompute,
// to keep and to move.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "plan/offload/arrangement.h"
#include "plan/schedules.h"
#include "plimsoll/plan.h"

namespace plimsoll {

class OffloadPlanner {
 public:
  /// All must outlive this. `pinned`: what is kept; null: that is chosen, too.
  OffloadPlanner(const Schedules& schedules, const Arrangements& arrangements, const KeptValues* pinned);

  /// The plan that takes least on the device. Empty: not even that has room elsewhere.
  const std::optional<Plan>& leanest() const { return leanest_; }

  /// Whether keeping those may fit a budget by its live bytes, with as much as can be elsewhere.
  bool may_fit(const KeptValues& kept, int64_t budget) const;

  /// The least time of a step within `budget` bytes, if that is less than `best`, or if nothing fits without. leanest()
  /// must be there.
  Plan choose(int64_t budget, Plan best) const;

 private:
  std::optional<Plan> leanest_with(double part, bool host_updates, bool by_value) const;
  bool blocks_are_leaner(double part) const;

  const PlanOptions& options_;
  const Schedules& schedules_;
  const Arrangements& arrangements_;
  const KeptValues* const pinned_;
  std::optional<Plan> leanest_;
  int64_t least_by_value_ = std::numeric_limits<int64_t>::max();  // its peak where block checkpoints are left out
};

}  // namespace plimsoll
