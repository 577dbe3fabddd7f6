#include "plan/offload_planner.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "plan/search/offload_candidates.h"
#include "plan/search/offload_search.h"

namespace plimsoll {
OffloadPlanner::OffloadPlanner(const ScheduleBuilder& builder, const OffloadVariants& variants, const KeptValues* fixed)
    : options_(builder.options()), builder_(builder), variants_(variants), fixed_(fixed) {
  const int kinds = variants_.candidates().kind_count();
  // The live bytes of the device are smallest with all kinds offloaded. Placement may need more than the live bytes, so
  // a plan that offloads fewer kinds may still have the smaller peak. Small steps therefore try 1, 2, ... kinds; large
  // steps only try all kinds.
  for (int fraction = builder_.is_small() ? std::min(kinds, 1) : kinds; fraction <= kinds; ++fraction)
    for (const bool on_host : {false, true}) {
      if (on_host && options_.cost.host_bytes <= 0) continue;
      for (const bool without_block_checkpointing : {true, false}) {
        // For fixed kept values only the second pass of this loop runs. Otherwise the second pass is skipped if block
        // checkpointing saves no memory.
        if (without_block_checkpointing ? fixed_ != nullptr
                                        : !fixed_ && !block_checkpointing_needs_less_memory(fraction))
          continue;
        auto plan = min_memory_plan_with(fraction, on_host, without_block_checkpointing);
        if (!plan) continue;
        if (without_block_checkpointing)
          min_peak_without_block_checkpointing_ = std::min(min_peak_without_block_checkpointing_, plan->peak_bytes);
        if (!min_memory_plan_ || plan->peak_bytes < min_memory_plan_->peak_bytes) min_memory_plan_ = std::move(plan);
      }
    }
}

// Returns whether block checkpointing has fewer live bytes than every other choice that was tried.
bool OffloadPlanner::block_checkpointing_needs_less_memory(double fraction) const {
  const OffloadVariant& variant = variants_.at(fraction, options_.budget.host);
  const int64_t host_left = options_.budget.host - variant.assignment.host_bytes;
  return variant.offload_search->min_memory_solution(host_left).peak <
         variant.offload_search->min_memory_without_block_checkpointing(host_left).peak;
}

// Returns the plan with the smallest peak on the device with `fraction` offloaded; nullopt: none fits into host memory.
std::optional<Plan> OffloadPlanner::min_memory_plan_with(double fraction, bool host_updates,
                                                         bool without_block_checkpointing) const {
  int64_t host_room = options_.budget.host;
  for (int attempt = 0; attempt < options_.solver.max_placement_attempts && host_room >= 0; ++attempt) {
    const OffloadVariant& variant = variants_.at(fraction, host_room);
    const int64_t host_left = host_room - variant.assignment.host_bytes;
    const OffloadSolution solution = without_block_checkpointing
                                         ? variant.offload_search->min_memory_without_block_checkpointing(host_left)
                                         : variant.offload_search->min_memory_solution(host_left, fixed_);
    Plan plan = builder_.build(variant, solution, host_updates, 0);
    const int64_t over = plan.host_bytes - options_.budget.host;
    if (over <= 0) return plan;
    host_room -= over;
  }
  return {};
}

bool OffloadPlanner::may_fit(const KeptValues& kept, int64_t budget) const {
  const OffloadVariant& all_offloaded = variants_.at(variants_.candidates().kind_count(), options_.budget.host);
  return all_offloaded.offload_search->min_memory_solution(options_.budget.host, &kept).peak <=
         builder_.transient_limit(budget, all_offloaded.persistent_bytes);
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
  const int kinds = candidates.kind_count();
  // Block checkpointing is tried only if no other choice fits. The reason is the bisection below, which looks for the
  // smallest fraction that fits. With block checkpointing, which needs the fewest bytes, it would find a smaller
  // fraction. A larger fraction with another choice is often faster, but would then not be tried.
  const bool without_block_checkpointing = budget >= min_peak_without_block_checkpointing_;
  const auto min_peak = [&](const OffloadVariant& each) {
    return without_block_checkpointing
               ? each.offload_search->min_memory_without_block_checkpointing(options_.budget.host).peak
               : each.offload_search->min_memory_solution(options_.budget.host, fixed_).peak;
  };
  // Bytes by which the limit of live bytes was lowered for the last plan that fits, because placement needed more than
  // the live bytes. In a large step, the next fraction begins with a limit that is lower by these bytes, if micro
  // batches use its offloaded buffers.
  int64_t placement_excess = 0;
  std::set<std::vector<Memory>> tried;
  const auto try_fraction = [&](double fraction) {
    if (!options_.minimize_step_time && fits(best)) return;
    const OffloadVariant& variant = variants_.at(fraction, options_.budget.host);
    if (!tried.insert(variant.assignment.memory).second) return;
    const int64_t full_limit = builder_.transient_limit(budget, variant.persistent_bytes);
    if (large && !fits(best) && min_peak(variant) > full_limit) return;
    int64_t limit = large && variant.assignment.used_by_micro_batches ? full_limit - placement_excess : full_limit;
    int64_t host_left = options_.budget.host - variant.assignment.host_bytes;
    for (int attempt = 0; attempt < options_.solver.max_placement_attempts; ++attempt) {
      const auto solution =
          variant.offload_search->cheapest(limit, std::max<int64_t>(host_left, 0), fixed_, without_block_checkpointing);
      // If nothing fits the lowered first limit, the full limit is tried.
      if (!solution && limit == full_limit - placement_excess && limit < full_limit) {
        limit = full_limit;
        continue;
      }
      if (!solution) return;
      Plan plan = builder_.build(variant, *solution, /*host_updates=*/false, limit);
      const int64_t over = plan.peak_bytes - budget, host_over = plan.host_bytes - options_.budget.host;
      if (consider(std::move(plan))) {
        placement_excess = full_limit - limit;
        if (variant.assignment.state_bytes > 0 && options_.cost.host_bytes > 0)
          consider(builder_.build(variant, *solution, /*host_updates=*/true, limit));
        return;
      }
      if (over <= 0 && host_left <= 0) return;  // the variant's buffers alone exceed host memory
      if (over > 0) limit = std::min(limit - over, solution->peak - 1);
      host_left -= std::max<int64_t>(host_over, 0);
    }
  };
  // Offload costs at least the time that ops wait for its copies. A fraction is worth trying if that time is less than
  // the time that `best` spends on recomputation and on waiting for copies.
  const auto worth_trying = [&](double fraction) {
    const double gain = (best.time.recompute + best.time.offload) * static_cast<double>(options_.micro_batches) +
                        best.time.update_offload;
    return !fits(best) || candidates.wait_seconds_lower_bound(variants_.at(fraction, options_.budget.host).assignment,
                                                              options_.cost) < gain;
  };
  try_fraction(0);
  if (kinds > 0)
    for (double fraction : {1.0, 0.5, 0.25, 0.75})
      if (worth_trying(fraction)) try_fraction(fraction);
  if (fits(best)) {
    for (int count = 2; count <= kinds; ++count)
      for (double fraction : {static_cast<double>(count), count - 0.5})
        if (worth_trying(fraction)) try_fraction(fraction);
  } else if (kinds > 1) {
    const int per_kind = options_.solver.offload.steps_per_kind;
    // Bisection finds the smallest fraction above 1 with which the live bytes fit; the fractions up to 1 were tried
    // above. Larger fractions are tried as well: they free bytes of the device, so that fewer values are recomputed.
    // They are the next whole number of kinds and all kinds, and in small steps two fractions just above the smallest.
    const auto live_bytes_fit = [&](int step) {
      const OffloadVariant& each = variants_.at(static_cast<double>(step) / per_kind, options_.budget.host);
      return min_peak(each) <= builder_.transient_limit(budget, each.persistent_bytes);
    };
    int low = per_kind + 1, high = kinds * per_kind;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (live_bytes_fit(middle))
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
  // The bound counts as if host memory held every candidate: max() / 4 is no limit, and sums with it do not overflow.
  const OffloadVariant& all_offloaded = variants_.at(kinds, std::numeric_limits<int64_t>::max() / 4);
  best.time.recompute_lower_bound =
      std::min(best.time.recompute + best.time.offload,
               all_offloaded.offload_search->lower_bound(
                   builder_.transient_limit(budget, all_offloaded.persistent_bytes), options_.budget.host));
  return best;
}

}  // namespace plimsoll
