#include "plan/offload_planner.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "plan/offload/offload_candidates.h"
#include "plan/offload/offload_search.h"

namespace plimsoll {
OffloadPlanner::OffloadPlanner(const ScheduleBuilder& builder, const OffloadVariants& variants, const KeptValues* fixed)
    : options_(builder.options()), builder_(builder), variants_(variants), fixed_(fixed) {
  const int kinds = variants_.candidates().kinds();
  // With all kinds offloaded the fewest bytes are live on the device, but placement may need more than the live bytes.
  // Small steps therefore try every number of kinds from 1. Large steps only try all kinds.
  for (int fraction = builder_.is_small() ? std::min(kinds, 1) : kinds; fraction <= kinds; ++fraction)
    for (const bool on_host : {false, true}) {
      if (on_host && options_.cost.host_bytes <= 0) continue;
      for (const bool per_value : {true, false}) {
        if (per_value ? fixed_ != nullptr : !fixed_ && !blocks_need_less_memory(fraction)) continue;
        auto plan = min_memory_plan_with(fraction, on_host, per_value);
        if (!plan) continue;
        if (per_value) min_peak_per_value_ = std::min(min_peak_per_value_, plan->peak_bytes);
        if (!min_memory_plan_ || plan->peak_bytes < min_memory_plan_->peak_bytes) min_memory_plan_ = std::move(plan);
      }
    }
}

// Returns whether block checkpointing has fewer live bytes than every other choice that was tried.
bool OffloadPlanner::blocks_need_less_memory(double fraction) const {
  const OffloadVariant& variant = variants_.at(fraction, options_.budget.host);
  const int64_t room = options_.budget.host - variant.assignment.host;
  return variant.offload_search->min_memory_solution(room).peak <
         variant.offload_search->min_memory_per_value(room).peak;
}

// Returns the plan with the smallest peak on the device with `fraction` offloaded; nullopt: none fits into host memory.
// `per_value`: without block checkpointing.
std::optional<Plan> OffloadPlanner::min_memory_plan_with(double fraction, bool host_updates, bool per_value) const {
  int64_t room = options_.budget.host;
  for (int attempt = 0; attempt < options_.solver.max_placement_attempts && room >= 0; ++attempt) {
    const OffloadVariant& variant = variants_.at(fraction, room);
    const int64_t rest = room - variant.assignment.host;
    const OffloadSolution solution = per_value ? variant.offload_search->min_memory_per_value(rest)
                                               : variant.offload_search->min_memory_solution(rest, fixed_);
    Plan plan = builder_.build(variant, solution, host_updates, 0);
    const int64_t over = plan.host_bytes - options_.budget.host;
    if (over <= 0) return plan;
    room -= over;
  }
  return {};
}

bool OffloadPlanner::may_fit(const KeptValues& kept, int64_t budget) const {
  const OffloadVariant& most = variants_.at(variants_.candidates().kinds(), options_.budget.host);
  return most.offload_search->min_memory_solution(options_.budget.host, &kept).peak <=
         builder_.transient_limit(budget, most.persistent_bytes);
}

Plan OffloadPlanner::choose(int64_t budget, Plan best) const {
  const auto fits = [&](const Plan& plan) { return builder_.fits(plan, budget); };
  const OffloadCandidates& candidates = variants_.candidates();
  const auto consider = [&](Plan plan) {
    if (!fits(plan)) return false;
    if (!fits(best) || builder_.step_seconds(plan) < builder_.step_seconds(best)) best = std::move(plan);
    return true;
  };
  const bool large = !builder_.is_small();
  const int kinds = candidates.kinds();
  // Block checkpointing is tried only if no other choice fits (per_value is false). It needs the fewest bytes, so the
  // bisection below would end at a small fraction. It would skip larger fractions, with which another choice is often
  // faster.
  const bool per_value = budget >= min_peak_per_value_;
  const auto min_peak = [&](const OffloadVariant& each) {
    return per_value ? each.offload_search->min_memory_per_value(options_.budget.host).peak
                     : each.offload_search->min_memory_solution(options_.budget.host, fixed_).peak;
  };
  // Bytes that placement is expected to need in addition to the live bytes: as many as for the last fraction that fits.
  int64_t placement_excess = 0;
  std::set<std::vector<Memory>> tried;
  const auto try_fraction = [&](double fraction) {
    if (!options_.minimize_step_time && fits(best)) return;
    const OffloadVariant& variant = variants_.at(fraction, options_.budget.host);
    if (!tried.insert(variant.assignment.memory).second) return;
    const int64_t all = builder_.transient_limit(budget, variant.persistent_bytes);
    if (large && !fits(best) && min_peak(variant) > all) return;
    int64_t limit = large && variant.assignment.used_by_micro_batches ? all - placement_excess : all;
    int64_t host = options_.budget.host - variant.assignment.host;
    for (int attempt = 0; attempt < options_.solver.max_placement_attempts; ++attempt) {
      const auto solution = variant.offload_search->cheapest(limit, std::max<int64_t>(host, 0), fixed_, per_value);
      if (!solution && limit == all - placement_excess && limit < all) {
        limit = all;
        continue;
      }
      if (!solution) return;
      Plan plan = builder_.build(variant, *solution, /*host_updates=*/false, limit);
      const int64_t over = plan.peak_bytes - budget, host_over = plan.host_bytes - options_.budget.host;
      if (consider(std::move(plan))) {
        placement_excess = all - limit;
        if (variant.assignment.state > 0 && options_.cost.host_bytes > 0)
          consider(builder_.build(variant, *solution, /*host_updates=*/true, limit));
        return;
      }
      if (over <= 0 && host <= 0) return;  // the variant's buffers alone exceed host memory
      if (over > 0) limit = std::min(limit - over, solution->peak - 1);
      host -= std::max<int64_t>(host_over, 0);
    }
  };
  // Offload costs at least the time of its copies. A fraction is worth trying if `best` recomputes and waits for longer
  // than that.
  const auto worth_trying = [&](double fraction) {
    const double gain = (best.time.recompute + best.time.offload) * static_cast<double>(options_.micro_batches) +
                        best.time.update_offload;
    return !fits(best) ||
           candidates.min_copy_seconds(variants_.at(fraction, options_.budget.host).assignment, options_.cost) < gain;
  };
  try_fraction(0);
  if (kinds > 0)
    for (double fraction : {1.0, 0.5, 0.25, 0.75})
      if (worth_trying(fraction)) try_fraction(fraction);
  if (fits(best)) {
    for (int whole = 2; whole <= kinds; ++whole)
      for (double fraction : {static_cast<double>(whole), whole - 0.5})
        if (worth_trying(fraction)) try_fraction(fraction);
  } else if (kinds > 1) {
    const int per_kind = options_.solver.offload.steps_per_kind;
    // Bisection finds the smallest fraction with which the live bytes fit. Larger fractions are tried as well: they
    // free bytes of the device, so that fewer values are recomputed.
    const auto possible = [&](int step) {
      const OffloadVariant& each = variants_.at(static_cast<double>(step) / per_kind, options_.budget.host);
      return min_peak(each) <= builder_.transient_limit(budget, each.persistent_bytes);
    };
    int low = per_kind + 1, high = kinds * per_kind;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (possible(middle))
        high = middle;
      else
        low = middle + 1;
    }
    std::vector<int> steps{low, (low + per_kind) / per_kind * per_kind, kinds * per_kind};
    if (!large) steps.insert(steps.begin() + 1, {low + 1, low + 3});
    for (int step : steps)
      if (step <= kinds * per_kind) try_fraction(static_cast<double>(step) / per_kind);
  }
  consider(*min_memory_plan_);
  if (!fits(best)) return *min_memory_plan_;
  if (fixed_) return best;  // no bound is known for fixed kept values
  const OffloadVariant& most = variants_.at(kinds, std::numeric_limits<int64_t>::max() / 4);
  best.time.recompute_lower_bound = std::min(
      best.time.recompute + best.time.offload,
      most.offload_search->lower_bound(builder_.transient_limit(budget, most.persistent_bytes), options_.budget.host));
  return best;
}

}  // namespace plimsoll
