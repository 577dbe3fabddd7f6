// Declares the result of a part of the search over open choices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "plimsoll/plan_training.h"

namespace plimsoll {

/// Returns true if the plan spends time to need less memory.
inline bool pays_for_memory(const Plan& plan) {
  return plan.checkpointed || plan.host_bytes + plan.disk_bytes > 0 || plan.time.norms > 0;
}

/// The best plan of some alternatives, and the smallest budget in bytes with which any of them fits.
struct Found {
  PlannedTraining planned;
  int64_t minimum_budget = 0;

  bool fits() const { return planned.plan.fits; }
  /// Returns true if this plan is better than `other`: only it fits, it is the faster of two that fit, or it needs less
  /// of two that do not.
  bool is_better_than(const Found& other) const {
    if (fits() != other.fits()) return fits();
    return fits() ? planned.step_seconds < other.planned.step_seconds : minimum_budget < other.minimum_budget;
  }
  /// Adds an alternative that needs at least `bytes`, and is not better.
  void add(int64_t bytes) { minimum_budget = std::min(minimum_budget, bytes); }
  /// Adds the alternatives of `other`: keeps the better plan, and the smaller minimum budget.
  void add(Found other) {
    if (other.is_better_than(*this)) planned = std::move(other.planned);
    add(other.minimum_budget);
  }
  /// Returns the plan with its minimum budget. No other function sets PlannedStep::minimum_budget_bytes.
  PlannedTraining result() && {
    planned.minimum_budget_bytes = minimum_budget;
    return std::move(planned);
  }
};

}  // namespace plimsoll
