#include "base/measure_allowance.h"

#include <time.h>

#include <algorithm>
#include <utility>

namespace plimsoll {
namespace {

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

MeasureAllowance::MeasureAllowance(const MeasureLimits& limits, std::function<double()> now)
    : limits_(limits), now_(now ? std::move(now) : thread_seconds) {}

double MeasureAllowance::seconds_left() const {
  const std::lock_guard lock(mutex_);
  return std::max(0.0, limits_.seconds - spent_);
}

MeasureAllowance::Charge::Charge(MeasureAllowance* allowance)
    : allowance_(allowance), begin_(allowance ? allowance->now_() : 0) {}

MeasureAllowance::Charge::~Charge() {
  if (!allowance_) return;
  const double seconds = allowance_->now_() - begin_;
  const std::lock_guard lock(allowance_->mutex_);
  allowance_->spent_ += seconds;
}

}  // namespace plimsoll
