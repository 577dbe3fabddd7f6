#include "plan/fixed_strategy.h"

#include <utility>

namespace plimsoll {

FixedStrategy::FixedStrategy(const ScheduleBuilder& builder, const OffloadVariants* variants, KeptValues kept,
                             Plan without_offload)
    : builder_(builder), kept_(std::move(kept)), without_offload_(std::move(without_offload)) {
  if (variants) offload_planner_.emplace(builder_, *variants, &kept_);
}

const Plan& FixedStrategy::min_memory_plan() const {
  const bool less = offload_planner_ && offload_planner_->min_memory_plan() &&
                    offload_planner_->min_memory_plan()->peak_bytes < without_offload_.peak_bytes;
  return less ? *offload_planner_->min_memory_plan() : without_offload_;
}

Plan FixedStrategy::plan(std::optional<int64_t> budget) const {
  if (builder_.fits(without_offload_, budget)) return without_offload_;
  // Without a budget, without_offload_ fits: here the budget has a value.
  if (!offload_planner_ || !offload_planner_->min_memory_plan() || *budget < min_memory_plan().peak_bytes)
    return min_memory_plan();
  return offload_planner_->choose(*budget, without_offload_);
}

}  // namespace plimsoll
