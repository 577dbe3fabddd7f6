#include "base/measure_allowance.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace plimsoll {
MeasureAllowance::MeasureAllowance(const MeasureLimits& limits, MeasureClocks clocks)
    : limits_(limits), clocks_(std::move(clocks)) {
  if (!clocks_.processor) clocks_.processor = thread_seconds;
  if (!clocks_.wall) clocks_.wall = [] { return clock_seconds(CLOCK_MONOTONIC); };
}

double MeasureAllowance::seconds_left() const {
  const std::lock_guard lock(mutex_);
  return std::max(0.0, limits_.seconds - spent_);
}

void MeasureAllowance::keep_estimate(const std::string& key, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  estimates_.insert_or_assign(key, bytes);
}

std::optional<int64_t> MeasureAllowance::estimate(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = estimates_.find(key);
  return found == estimates_.end() ? std::nullopt : std::optional(found->second);
}

MeasureAllowance::Charge::Charge(MeasureAllowance* allowance) : allowance_(allowance) {
  if (!allowance_) return;
  processor_ = allowance_->clocks_.processor();
  wall_ = allowance_->clocks_.wall();
}

double MeasureAllowance::Charge::seconds() const {
  if (!allowance_) return 0;
  return std::max(allowance_->clocks_.processor() - processor_, allowance_->clocks_.wall() - wall_);
}

MeasureAllowance::Charge::~Charge() {
  if (!allowance_) return;
  const double charged = seconds();
  const std::lock_guard lock(allowance_->mutex_);
  allowance_->spent_ += charged;
}

}  // namespace plimsoll
