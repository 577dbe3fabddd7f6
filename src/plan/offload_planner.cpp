#include "plan/offload_planner.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "plan/offload/offload_candidates.h"
#include "plan/offload/offload_search.h"

namespace plimsoll {
OffloadPlanner::OffloadPlanner(const Schedules& schedules, const Arrangements& arrangements, const KeptValues* pinned)
    : options_(schedules.options()), schedules_(schedules), arrangements_(arrangements), pinned_(pinned) {
  const int kinds = arrangements_.candidates().kinds();
  // Offloading the most leaves the fewest bytes on the device, except for losses of placement. Small steps therefore
  // also try less.
  for (int part = schedules_.small() ? std::min(kinds, 1) : kinds; part <= kinds; ++part)
    for (const bool on_host : {false, true}) {
      if (on_host && options_.cost.host_bytes <= 0) continue;
      for (const bool by_value : {true, false}) {
        if (by_value ? pinned_ != nullptr : !pinned_ && !blocks_are_leaner(part)) continue;
        auto plan = leanest_with(part, on_host, by_value);
        if (!plan) continue;
        if (by_value) least_by_value_ = std::min(least_by_value_, plan->peak_bytes);
        if (!leanest_ || plan->peak_bytes < leanest_->peak_bytes) leanest_ = std::move(plan);
      }
    }
}

bool OffloadPlanner::blocks_are_leaner(double part) const {
  const Arrangement& arrangement = arrangements_.at(part, options_.budget.host);
  const int64_t room = options_.budget.host - arrangement.away.host;
  return arrangement.moving->leanest(room).peak < arrangement.moving->leanest_by_value(room).peak;
}

// Returns the plan with the smallest peak with `part` offloaded, if it fits into host memory and disk.
std::optional<Plan> OffloadPlanner::leanest_with(double part, bool host_updates, bool by_value) const {
  int64_t room = options_.budget.host;
  for (int attempt = 0; attempt < options_.solver.max_placement_attempts && room >= 0; ++attempt) {
    const Arrangement& arrangement = arrangements_.at(part, room);
    const int64_t rest = room - arrangement.away.host;
    const OffloadAnswer answer =
        by_value ? arrangement.moving->leanest_by_value(rest) : arrangement.moving->leanest(rest, pinned_);
    Plan plan = schedules_.with(arrangement, answer, host_updates, 0);
    const int64_t over = plan.host_bytes - options_.budget.host;
    if (over <= 0) return plan;
    room -= over;
  }
  return {};
}

bool OffloadPlanner::may_fit(const KeptValues& kept, int64_t budget) const {
  const Arrangement& most = arrangements_.at(arrangements_.candidates().kinds(), options_.budget.host);
  return most.moving->leanest(options_.budget.host, &kept).peak <=
         schedules_.limit_under(budget, most.persistent_bytes);
}

Plan OffloadPlanner::choose(int64_t budget, Plan best) const {
  const auto fits = [&](const Plan& plan) { return schedules_.fits(plan, budget); };
  const AwayCandidates& candidates = arrangements_.candidates();
  const auto consider = [&](Plan plan) {
    if (!fits(plan)) return false;
    if (!fits(best) || schedules_.step_of(plan) < schedules_.step_of(best)) best = std::move(plan);
    return true;
  };
  const bool large = !schedules_.small();
  const int kinds = candidates.kinds();
  // Block checkpointing is proposed only if nothing else fits: it is often slower than another choice with more
  // offloaded, which the search would then not try.
  const bool by_value = budget >= least_by_value_;
  const auto leanest_peak = [&](const Arrangement& each) {
    return by_value ? each.moving->leanest_by_value(options_.budget.host).peak
                    : each.moving->leanest(options_.budget.host, pinned_).peak;
  };
  int64_t lost = 0;  // bytes that placement took in addition to the live bytes of the last part that was tried
  std::set<std::vector<Memory>> tried;
  const auto try_part = [&](double part) {
    if (!options_.thorough && fits(best)) return;
    const Arrangement& arrangement = arrangements_.at(part, options_.budget.host);
    if (!tried.insert(arrangement.away.memory).second) return;
    const int64_t all = schedules_.limit_under(budget, arrangement.persistent_bytes);
    if (large && !fits(best) && leanest_peak(arrangement) > all) return;
    int64_t limit = large && arrangement.away.in_training ? all - lost : all;
    int64_t host = options_.budget.host - arrangement.away.host;
    for (int attempt = 0; attempt < options_.solver.max_placement_attempts; ++attempt) {
      const auto answer = arrangement.moving->cheapest(limit, std::max<int64_t>(host, 0), pinned_, by_value);
      if (!answer && limit == all - lost && limit < all) {
        limit = all;
        continue;
      }
      if (!answer) return;
      Plan plan = schedules_.with(arrangement, *answer, /*host_updates=*/false, limit);
      const int64_t over = plan.peak_bytes - budget, host_over = plan.host_bytes - options_.budget.host;
      if (consider(std::move(plan))) {
        lost = all - limit;
        if (arrangement.away.state > 0 && options_.cost.host_bytes > 0)
          consider(schedules_.with(arrangement, *answer, /*host_updates=*/true, limit));
        return;
      }
      if (over <= 0 && host <= 0) return;  // nothing more can be removed from the device
      if (over > 0) limit = std::min(limit - over, answer->peak - 1);
      host -= std::max<int64_t>(host_over, 0);
    }
  };
  // Offload adds at least its copies; it is worth a try if that is less than all remaining waiting and recomputation.
  const auto worth_trying = [&](double part) {
    const double gain = (best.time.recompute + best.time.offload) * static_cast<double>(options_.micro_batches) +
                        best.time.update_offload;
    return !fits(best) ||
           candidates.least_seconds(arrangements_.at(part, options_.budget.host).away, options_.cost) < gain;
  };
  try_part(0);
  if (kinds > 0)
    for (double part : {1.0, 0.5, 0.25, 0.75})
      if (worth_trying(part)) try_part(part);
  if (fits(best)) {
    for (int whole = 2; whole <= kinds; ++whole)
      for (double part : {static_cast<double>(whole), whole - 0.5})
        if (worth_trying(part)) try_part(part);
  } else if (kinds > 1) {
    const int per_kind = options_.solver.offload.steps_per_kind;
    // Smallest part with which something fits, and larger ones: bytes that are free on the device can save
    // recomputation.
    const auto possible = [&](int step) {
      const Arrangement& each = arrangements_.at(static_cast<double>(step) / per_kind, options_.budget.host);
      return leanest_peak(each) <= schedules_.limit_under(budget, each.persistent_bytes);
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
      if (step <= kinds * per_kind) try_part(static_cast<double>(step) / per_kind);
  }
  consider(*leanest_);
  if (!fits(best)) return *leanest_;
  if (pinned_) return best;  // no bound is known for fixed kept values
  const Arrangement& most = arrangements_.at(kinds, std::numeric_limits<int64_t>::max() / 4);
  best.time.recompute_bound =
      std::min(best.time.recompute + best.time.offload,
               most.moving->bound(schedules_.limit_under(budget, most.persistent_bytes), options_.budget.host));
  return best;
}

}  // namespace plimsoll
