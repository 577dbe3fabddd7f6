#include "plimsoll/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "plan/explain/decision_reasons.h"
#include "plan/fixed_strategy.h"
#include "plan/offload/offload_variants.h"
#include "plan/offload_planner.h"
#include "plan/passes/group_updates.h"
#include "plan/passes/update_in_backward.h"
#include "plan/pipeline.h"
#include "plan/recompute/recompute_search.h"
#include "plan/schedule_builder.h"
#include "plan/search_count.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// Bound for counts of work and of elements: the product of two stays below 2^63.
constexpr int64_t kMostWork = int64_t{1} << 40;
// Bound for counts in 32 bits.
constexpr int64_t kMostCount = int64_t{1} << 30;

void require_valid(const SolverParameters& solver) {
  const auto require = [](const char* name, auto value, auto least, auto most) {
    // std::cmp_* accept only integers; require_real() checks floating-point limits.
    if (std::cmp_greater_equal(value, least) && std::cmp_less_equal(value, most)) return;
    throw UserError(fmt::format("PlanOptions::solver: {} is {}; allowed: {} to {}", name, value, least, most));
  };
  const auto require_real = [](const char* name, double value, double least, double most) {
    if (value >= least && value <= most) return;  // a comparison with NaN is false
    throw UserError(fmt::format("PlanOptions::solver: {} is {}; allowed: {} to {}", name, value, least, most));
  };
  require("max_placement_attempts", solver.max_placement_attempts, 0, kMostCount);
  require("large_trace_ops", solver.large_trace_ops, 0, kMostCount);
  require_real("unmerged_recompute_fraction", solver.unmerged_recompute_fraction, 0, 1);
  require("placement_effort", solver.placement_effort, 0, kMostWork);
  const TreeSearchParameters& tree = solver.tree_search;
  require("tree_search.max_boxes", tree.max_boxes, 0, kMostCount);
  require("tree_search.max_meetings", tree.max_meetings, 0, kMostWork);
  require("tree_search.max_infeasible_states", tree.max_infeasible_states, 0, kMostWork);
  require("tree_search.orders", tree.orders, 1, 4);
  require("tree_search.promotion_placements", tree.promotion_placements, 0, kMostWork);
  const RecomputeParameters& recompute = solver.recompute;
  require("recompute.max_exhaustive_decisions", recompute.max_exhaustive_decisions, 0, 30);
  require("recompute.refinement_work", recompute.refinement_work, 0, kMostWork);
  require_real("recompute.accepted_cost_ratio", recompute.accepted_cost_ratio, 1, 1e9);
  require("recompute.max_values_improved", recompute.max_values_improved, 0, kMostCount);
  require("recompute.improvement_rounds", recompute.improvement_rounds, 0, kMostCount);
  require("recompute.max_partial_solutions", recompute.max_partial_solutions, 2, kMostCount);
  require("recompute.max_region_choices", recompute.max_region_choices, 1, kMostCount);
  require("recompute.max_limit_attempts", recompute.max_limit_attempts, 0, kMostCount);
  const OffloadParameters& offload = solver.offload;
  require("offload.max_exhaustive_combinations", offload.max_exhaustive_combinations, 0, (1 << 20) - 1);
  require("offload.evaluation_work", offload.evaluation_work, 0, kMostWork);
  require("offload.min_evaluations", offload.min_evaluations, 0, kMostCount);
  require("offload.max_evaluations", offload.max_evaluations, offload.min_evaluations, kMostCount);
  require("offload.max_value_ratio", offload.max_value_ratio, 1, kMostWork);
  require("offload.max_buffer_ratio", offload.max_buffer_ratio, 1, kMostWork);
  require("offload.max_limit_attempts", offload.max_limit_attempts, 0, kMostCount);
  require("offload.bound_steps", offload.bound_steps, 0, 1000);
  require("offload.steps_per_kind", offload.steps_per_kind, 1, 1000);
  const MergingParameters& merging = solver.merging;
  require("merging.max_distance", merging.max_distance, 0, kMostCount);
  require("merging.max_open_groups", merging.max_open_groups, 1, kMostCount);
  require("merging.max_grouped_elements", merging.max_grouped_elements, 0, kMostWork);
  require("merging.max_group_elements", merging.max_group_elements, 0, kMostWork);
}

std::atomic<int64_t> searches = 0;

}  // namespace

struct Planner::Impl {
  const PlanOptions options;

  Impl(const Trace& trace, const PlanOptions& plan_options, bool updates_in_backward)
      : options(plan_options), in_backward(updates_in_backward), schedules(trace, options, updates_in_backward) {
    search = schedules.search();
    if (!search) return;
    const bool disk = options.budget.disk > 0 && options.cost.disk_link > 0;
    if ((options.budget.host > 0 || disk) && options.cost.host_link > 0)
      arrangements.emplace(schedules.trace(), *search, options, apply_choices);
    if (options.gradient_checkpointing != Choice::automatic) {
      treatment(options.gradient_checkpointing);
      return;
    }
    leanest = schedules.with(search->leanest());
    // For a large step the keep-all plan is placed only if it may have the smallest peak, and only when it is needed.
    if (schedules.small() || schedules.least_at_once() <= leanest->peak_bytes) whole();
    look_for_leaner();
    if (arrangements) elsewhere.emplace(schedules, *arrangements, nullptr);
  }

  /// Returns the minimum budget in bytes.
  int64_t minimum() const {
    if (!search) return schedules.unchanged().peak_bytes;
    return leanest_of_all().peak_bytes;
  }

  Plan plan(std::optional<int64_t> budget) const {
    const auto start = std::chrono::steady_clock::now();
    Plan plan = !search ? schedules.unchanged() : choose(budget);
    plan.fits = schedules.fits(plan, budget);
    plan.budget = options.budget;
    plan.budget.device = budget;
    plan.update_in_backward = in_backward;
    if (plan.minimum_budget_bytes == 0) plan.minimum_budget_bytes = plan.peak_bytes;
    if (plan.fits) plan = schedules.with_overlap(std::move(plan), budget);
    if (in_backward) plan.reasons.insert(plan.reasons.begin(), update_reason(options, plan));
    if (plan.fused_ops > 0) plan.reasons.push_back(fusing_reason(options, plan));
    if (const auto grouped = grouped_updates_of(plan.trace); grouped.groups > 0)
      plan.reasons.push_back(grouping_reason(options, grouped));
    if (plan.choices.exchange_limit_bytes >= 0) plan.reasons.push_back(overlap_reason(options, plan));
    plan = schedules.validated(std::move(plan));
    plan.plan_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return plan;
  }

  /// Returns an approximate lower bound of the step time in seconds: the keep-all plan, less the updates that may run
  /// on the host.
  double least_seconds() const {
    if (!search) return schedules.step_of(schedules.unchanged());
    const bool pinned = options.gradient_checkpointing != Choice::automatic;
    return (pinned ? treatment(options.gradient_checkpointing).least_seconds() : least_seconds_in_turn()) -
           schedules.overlap_seconds_saved();
  }

  double step_of(const Plan& plan) const { return schedules.step_of(plan); }

  /// Returns a lower bound of the step time in seconds under `budget` bytes: keep-all, plus the least recomputation. It
  /// is for a large step without host memory or disk, and a budget below the peak of keep-all. 0: no bound is known.
  double least_seconds_under(int64_t budget) const {
    if (!search || schedules.small() || arrangements || options.gradient_checkpointing != Choice::automatic) return 0;
    if (budget < minimum() || schedules.least_at_once() <= budget) return 0;
    const int64_t bound = search->bound(schedules.limit_under(budget, leanest->persistent_bytes));
    // The last micro batch may be smaller than those that the bound is for.
    const auto whole_ones =
        static_cast<double>(options.micro_batches - (schedules.trace().segment("remainder") ? 1 : 0));
    return schedules.seconds_at_once() - schedules.overlap_seconds_saved() +
           options.solver.unmerged_recompute_fraction * static_cast<double>(bound) * 1e-12 * whole_ones;
  }

 private:
  /// Returns least_seconds() without overlap of exchanges with other ops.
  double least_seconds_in_turn() const { return schedules.step_of(whole()) - schedules.update_seconds_saved(); }

  const Treatment& treatment(Choice choice) const {
    auto& made = choice == Choice::on ? blocks : everything;
    if (made) return *made;
    const Arrangements* const others = arrangements ? &*arrangements : nullptr;
    RecomputeAnswer answer =
        choice == Choice::on ? search->drop_blocks(options.checkpointed_module) : search->keep_everything();
    const bool known = choice == Choice::off && options.gradient_checkpointing == Choice::automatic;
    Plan at_once = known ? whole() : schedules.with(answer);
    made = std::make_unique<Treatment>(schedules, others, std::move(answer.kept), std::move(at_once));
    return *made;
  }

  const Plan& leanest_of_all() const {
    if (options.gradient_checkpointing != Choice::automatic) return treatment(options.gradient_checkpointing).leanest();
    const Plan* least = &leanest_searched();
    // For large steps the search compares live bytes, and already returns the plan with the fewest.
    if (schedules.small())
      for (const Choice choice : {Choice::on, Choice::off})
        if (const Plan& each = treatment(choice).leanest(); each.peak_bytes < least->peak_bytes) least = &each;
    return *least;
  }

  const Plan& leanest_searched() const {
    const Plan* least = whole_ && whole_->peak_bytes <= leanest->peak_bytes ? &*whole_ : &*leanest;
    if (elsewhere && elsewhere->leanest() && elsewhere->leanest()->peak_bytes < least->peak_bytes)
      least = &*elsewhere->leanest();
    return *least;
  }

  Plan choose(std::optional<int64_t> budget) const {
    Plan best;
    if (options.gradient_checkpointing == Choice::automatic) {
      best = choose_automatically(budget);
      best.reasons.insert(best.reasons.begin(),
                          recompute_reason(best, schedules.fits(best, budget), whole_peak(), budget));
    } else {
      const Treatment& pinned = treatment(options.gradient_checkpointing);
      best = pinned.plan(budget);
      best.reasons.insert(best.reasons.begin(), pinned_reason(options, pinned.at_once()));
    }
    best.minimum_budget_bytes = minimum();
    return best;
  }

  const Plan& whole() const {
    if (!whole_) whole_ = schedules.with(search->keep_everything());
    return *whole_;
  }

  /// Returns the peak of the keep-all plan in bytes; a lower bound if it was never placed.
  int64_t whole_peak() const { return whole_ ? whole_->peak_bytes : schedules.least_at_once(); }

  // Returns the plan of the search, or that of a fixed strategy if it takes less time: neither the search nor the
  // placement is exact.
  Plan choose_automatically(std::optional<int64_t> budget) const {
    if (const Plan& least = leanest_of_all(); budget && *budget < least.peak_bytes) return least;
    Plan best = search_under(budget);
    if (!options.thorough && schedules.fits(best, budget)) return best;
    const double bound = best.time.recompute_bound;
    for (const Choice choice : {Choice::on, Choice::off}) {
      if (!may_be_faster(choice, best, budget)) continue;
      Plan other = treatment(choice).plan(budget);
      if (!schedules.fits(other, budget)) continue;
      if (schedules.fits(best, budget) && schedules.step_of(other) >= schedules.step_of(best)) continue;
      best = std::move(other);
      best.time.recompute_bound = std::min(bound, best.time.recompute + best.time.offload);
    }
    return best;
  }

  // Returns whether the strategy `choice` may fit and be faster than `best`. Large steps are judged by live bytes and
  // by the time of ops that are not merged into others, because placing them takes seconds.
  bool may_be_faster(Choice choice, const Plan& best, std::optional<int64_t> budget) const {
    const bool wanted = !schedules.fits(best, budget);
    if (!wanted && schedules.step_of(best) <= least_seconds_in_turn()) return false;
    if (!schedules.small()) {
      const RecomputeAnswer answer =
          choice == Choice::on ? search->drop_blocks(options.checkpointed_module) : search->keep_everything();
      const double again = static_cast<double>(answer.cost) * 1e-12 * static_cast<double>(options.micro_batches);
      if (!wanted && least_seconds_in_turn() + again >= schedules.step_of(best)) return false;
      const bool at_once = !budget || schedules.limit_under(*budget, leanest->persistent_bytes) >= answer.peak;
      if (!at_once && !(elsewhere && elsewhere->may_fit(answer.kept, *budget))) return false;
    }
    const Treatment& each = treatment(choice);
    return (!budget || each.leanest().peak_bytes <= *budget) &&
           (wanted || each.least_seconds() < schedules.step_of(best));
  }

  // Returns the plan of the search, which recomputes, keeps or offloads each value.
  Plan search_under(std::optional<int64_t> budget) const {
    Plan best = choose_recomputation(budget);
    if (!elsewhere || !elsewhere->leanest()) return best;
    if (const Plan& least = leanest_searched(); budget && *budget < least.peak_bytes) return least;
    if (!schedules.fits(best, budget) || best.checkpointed) return elsewhere->choose(*budget, std::move(best));
    return best;
  }

  // Returns a placed plan under `budget` bytes, or nullopt. The search counts live bytes; if placement takes more, the
  // search is repeated with a lower limit.
  std::optional<Plan> recomputation_under(int64_t budget) const {
    int64_t limit = schedules.limit_under(budget, leanest->persistent_bytes);
    std::optional<double> bound;
    for (int attempt = 0; attempt < options.solver.max_placement_attempts; ++attempt) {
      const auto answer = search->cheapest(limit);
      if (!answer) return {};
      // The bound is for the budget itself: later attempts have lower limits than allowed.
      if (!bound) bound = static_cast<double>(answer->bound) * 1e-12;
      Plan plan = schedules.with(*answer);
      plan.time.recompute_bound = std::min(*bound, plan.time.recompute);
      if (schedules.fits(plan, budget)) return plan;
      // A limit at or above the solution's peak would return the same solution.
      limit = std::min(limit - (plan.peak_bytes - budget), answer->peak - 1);
    }
    return {};
  }

  // Tries to lower the peak of the minimum-memory plan: a choice that holds more may be placed in fewer bytes, and the
  // search for the minimum is not exact.
  void look_for_leaner() {
    if (!schedules.small()) return;
    for (int i = 0; i < options.solver.max_placement_attempts; ++i) {
      auto leaner = recomputation_under(leanest->peak_bytes - 1);
      if (!leaner) return;
      leanest = std::move(leaner);
    }
  }

  Plan choose_recomputation(std::optional<int64_t> budget) const {
    const int64_t minimum = std::min(whole_peak(), leanest->peak_bytes);
    const bool at_once = (!budget || whole_peak() <= *budget || whole_peak() == minimum) &&
                         (schedules.fits(whole(), budget) || whole().peak_bytes == minimum);
    Plan best = at_once ? whole() : *leanest;
    if (schedules.fits(best, budget) && best.checkpointed) {
      const auto consider = [&](std::optional<Plan> plan) {
        if (!plan || plan->time.recompute >= best.time.recompute) return;
        best = std::move(*plan);
      };
      auto direct = recomputation_under(*budget);
      const double bound = direct ? direct->time.recompute_bound : 0;
      consider(std::move(direct));
      if (!options.thorough) return best;
      // Neither search nor placement is exact: a plan for a slightly smaller budget is sometimes faster.
      for (int part : {1, 2, 4, 8})
        if (schedules.small(part == 1 ? 4 : 1))
          consider(recomputation_under(*budget - (*budget - minimum) * part / 100));
      best.time.recompute_bound = std::min(bound, best.time.recompute);
    }
    return best;
  }

  const bool in_backward;
  const Schedules schedules;
  const RecomputeSearch* search = nullptr;   // null: there is no training segment, and nothing to choose
  std::optional<Arrangements> arrangements;  // only if there is host memory or a disk
  // Plans of the search: keep-all, minimum memory, and with host memory or disk.
  mutable std::optional<Plan> whole_;
  std::optional<Plan> leanest;
  std::optional<OffloadPlanner> elsewhere;
  mutable std::unique_ptr<Treatment> blocks, everything;  // made on first use
};

int64_t searches_made() {
  return searches;
}

Planner::Planner(const Trace& trace, const PlanOptions& options) {
  require_valid(options.solver);
  ++searches;
  const bool wanted = options.update_in_backward != Choice::off;
  const std::string obstacle = wanted ? update_in_backward_obstacle(trace) : "";
  if (options.update_in_backward == Choice::on && !obstacle.empty())
    throw UserError("update_in_backward: on is not possible here: " + obstacle);
  const bool possible = wanted && obstacle.empty();
  const bool pinned = options.update_in_backward == Choice::on;
  impl_ = std::make_unique<Impl>(trace, options, pinned);
  if (possible && !pinned) in_backward_ = std::make_unique<Impl>(trace, options, true);
}
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;

Plan Planner::plan(std::optional<int64_t> memory_budget) const {
  Plan plan = impl_->plan(memory_budget);
  if (!in_backward_) return plan;
  const int64_t minimum = std::min(plan.minimum_budget_bytes, in_backward_->minimum());
  if (!plan.fits || (impl_->options.thorough && in_backward_->least_seconds() < impl_->step_of(plan))) {
    Plan other = in_backward_->plan(memory_budget);
    const bool better = plan.fits != other.fits ? other.fits
                        : plan.fits             ? in_backward_->step_of(other) < impl_->step_of(plan)
                                                : other.minimum_budget_bytes < plan.minimum_budget_bytes;
    if (better) plan = std::move(other);
  }
  plan.minimum_budget_bytes = minimum;
  return plan;
}

double Planner::least_seconds(int64_t budget) const {
  const double seconds = impl_->least_seconds_under(budget);
  if (!in_backward_) return seconds;
  // A plan that does not fit has no time.
  const bool first = impl_->minimum() <= budget, second = in_backward_->minimum() <= budget;
  if (!first || !second) return first ? seconds : in_backward_->least_seconds_under(budget);
  return seconds > 0 ? std::min(seconds, in_backward_->least_seconds_under(budget)) : 0;
}

int64_t Planner::minimum_budget() const {
  const int64_t minimum = impl_->minimum();
  return in_backward_ ? std::min(minimum, in_backward_->minimum()) : minimum;
}

Plan make_plan(const Trace& trace, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = Planner(trace, options).plan(options.budget.device);
  plan.plan_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace plimsoll
