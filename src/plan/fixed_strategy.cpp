#include "plan/fixed_strategy.h"

#include <utility>

namespace plimsoll {

Treatment::Treatment(const Schedules& schedules, const Arrangements* arrangements, KeptValues kept, Plan at_once)
    : schedules_(schedules), kept_(std::move(kept)), at_once_(std::move(at_once)) {
  if (arrangements) elsewhere_.emplace(schedules_, *arrangements, &kept_);
}

const Plan& Treatment::leanest() const {
  const bool less = elsewhere_ && elsewhere_->leanest() && elsewhere_->leanest()->peak_bytes < at_once_.peak_bytes;
  return less ? *elsewhere_->leanest() : at_once_;
}

Plan Treatment::plan(std::optional<int64_t> budget) const {
  if (schedules_.fits(at_once_, budget)) return at_once_;
  if (!elsewhere_ || !elsewhere_->leanest() || *budget < leanest().peak_bytes) return leanest();
  return elsewhere_->choose(*budget, at_once_);
}

}  // namespace plimsoll
