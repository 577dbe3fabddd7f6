#include "plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/measurement.h"
#include "plan/offload_planner.h"
#include "plan/passes/passes.h"
#include "plan/passes/pipeline.h"
#include "plan/passes/update_in_backward.h"
#include "plan/reasons.h"
#include "plan/schedule_builder.h"
#include "plan/search/offload_search.h"
#include "plan/search/recompute_search.h"
#include "plimsoll/error.h"
#include "plimsoll/planner.h"

namespace plimsoll {
namespace {

// Largest allowed limit on work or elements: above every useful value, and far below the overflow of int64_t.
constexpr int64_t kMaxWork = int64_t{1} << 40;
// Largest allowed value of a limit that is a count. It fits into 32 bits.
constexpr int64_t kMaxCount = int64_t{1} << 30;

void require_valid(const SolverParameters& solver) {
  const auto require = [](const char* name, auto value, auto min, auto max) {
    // std::cmp_* accept only integers; require_real() checks floating-point limits.
    if (std::cmp_greater_equal(value, min) && std::cmp_less_equal(value, max)) return;
    throw UserError(fmt::format("PlanOptions::solver: {} is {}; allowed: {} to {}", name, value, min, max));
  };
  const auto require_real = [](const char* name, double value, double min, double max) {
    if (value >= min && value <= max) return;  // a comparison with NaN is false
    throw UserError(fmt::format("PlanOptions::solver: {} is {}; allowed: {} to {}", name, value, min, max));
  };
  require("max_placement_attempts", solver.max_placement_attempts, 0, kMaxCount);
  require("large_trace_ops", solver.large_trace_ops, 0, kMaxCount);
  require_real("unmerged_recompute_fraction", solver.unmerged_recompute_fraction, 0, 1);
  require("placement_effort", solver.placement_effort, 0, kMaxWork);
  const TreeSearchParameters& tree = solver.tree_search;
  require("tree_search.max_boxes", tree.max_boxes, 0, kMaxCount);
  require("tree_search.max_meetings", tree.max_meetings, 0, kMaxWork);
  require("tree_search.max_infeasible_states", tree.max_infeasible_states, 0, kMaxWork);
  require("tree_search.orders", tree.orders, 1, 4);
  require("tree_search.promotion_placements", tree.promotion_placements, 0, kMaxWork);
  const RecomputeParameters& recompute = solver.recompute;
  require("recompute.max_exhaustive_decisions", recompute.max_exhaustive_decisions, 0, 30);
  require("recompute.refinement_work", recompute.refinement_work, 0, kMaxWork);
  require_real("recompute.accepted_cost_ratio", recompute.accepted_cost_ratio, 1, 1e9);
  require("recompute.max_values_improved", recompute.max_values_improved, 0, kMaxCount);
  require("recompute.improvement_rounds", recompute.improvement_rounds, 0, kMaxCount);
  require("recompute.max_partial_solutions", recompute.max_partial_solutions, 2, kMaxCount);
  require("recompute.max_region_choices", recompute.max_region_choices, 1, kMaxCount);
  require("recompute.max_limit_attempts", recompute.max_limit_attempts, 0, kMaxCount);
  const OffloadParameters& offload = solver.offload;
  require("offload.max_exhaustive_combinations", offload.max_exhaustive_combinations, 0, (1 << 20) - 1);
  require("offload.evaluation_work", offload.evaluation_work, 0, kMaxWork);
  require("offload.min_evaluations", offload.min_evaluations, 0, kMaxCount);
  require("offload.max_evaluations", offload.max_evaluations, offload.min_evaluations, kMaxCount);
  require("offload.max_value_ratio", offload.max_value_ratio, 1, kMaxWork);
  require("offload.max_buffer_ratio", offload.max_buffer_ratio, 1, kMaxWork);
  require("offload.max_limit_attempts", offload.max_limit_attempts, 0, kMaxCount);
  require("offload.bound_steps", offload.bound_steps, 0, 1000);
  require("offload.steps_per_kind", offload.steps_per_kind, 1, 1000);
  const MergingParameters& merging = solver.merging;
  require("merging.max_distance", merging.max_distance, 0, kMaxCount);
  require("merging.max_open_groups", merging.max_open_groups, 1, kMaxCount);
  require("merging.max_grouped_elements", merging.max_grouped_elements, 0, kMaxWork);
  require("merging.max_group_elements", merging.max_group_elements, 0, kMaxWork);
}

std::atomic<int64_t> searches = 0;  // see searches_made()

}  // namespace

struct Planner::Impl {
  const PlanOptions options;

  /// A choice of all plans. `heads`: those that the pass slice_rows cuts. `whole_peak`: lower bound of the peak, in
  /// bytes, of the keep-all plan without that pass.
  struct Base {
    PlanChoices choices;
    std::vector<SlicedHead> heads = {};
    int64_t whole_peak = 0;
  };

  Impl(const Trace& trace, const PlanOptions& plan_options, Base base_choice)
      : options(plan_options), base(std::move(base_choice)), builder(trace, options, base.choices) {
    search = builder.search();
    if (!search) return;
    const bool disk = options.budget.disk > 0 && options.cost.disk_link > 0;
    if ((options.budget.host > 0 || disk) && options.cost.host_link > 0)
      variants.emplace(builder.trace(), *search, options);
    if (options.gradient_checkpointing != Choice::automatic) {
      fixed_strategy(options.gradient_checkpointing);
      return;
    }
    min_memory_plan = builder.build(search->min_memory_solution());
    // A large step's keep-all plan is placed here only if it may have the smallest peak. Otherwise keep_all_plan()
    // places it on first use.
    if (builder.is_small() || builder.keep_all_peak_lower_bound() <= min_memory_plan->peak_bytes) keep_all_plan();
    improve_min_memory_plan();
    if (variants) offload_planner.emplace(builder, *variants, nullptr);
  }

  /// Returns the minimum budget in bytes.
  int64_t minimum_budget() const {
    if (!search) return builder.build_without_choices().peak_bytes;
    return min_memory_plan_of_all().peak_bytes;
  }

  /// Returns the plan of the strategy that the job sets. If it sets none, returns the plan of the search, which decides
  /// for each value whether it is kept, recomputed or offloaded; or that of a fixed strategy, if only that fits or if
  /// it is faster. It may be faster because neither the search nor the placement is exact. If `budget` is below the
  /// minimum budget, returns the minimum-memory plan.
  Plan plan(std::optional<int64_t> budget) const {
    if (!search) return finished(builder.build_without_choices(), budget, {});
    if (options.gradient_checkpointing != Choice::automatic) {
      const FixedStrategy& strategy = fixed_strategy(options.gradient_checkpointing);
      return finished(strategy.plan(budget), budget, fixed_reason(options, strategy.without_offload()));
    }
    const auto with_reason = [&](Plan plan) {
      Reason reason = recompute_reason(plan, builder.fits(plan, budget), keep_all_peak(), budget);
      return finished(std::move(plan), budget, std::move(reason));
    };
    if (const Plan& least = min_memory_plan_of_all(); budget && *budget < least.peak_bytes) return with_reason(least);
    Plan best = plan_without_offload(budget);
    if (offload_planner && offload_planner->min_memory_plan()) {
      if (const Plan& least = min_memory_plan_of_search(); budget && *budget < least.peak_bytes)
        best = least;
      else if (!builder.fits(best, budget) || best.checkpointed)
        best = offload_planner->choose(*budget, std::move(best));
    }
    if (!options.minimize_step_time && builder.fits(best, budget)) return with_reason(std::move(best));
    const double lower_bound = best.time.recompute_lower_bound;
    for (const Choice choice : {Choice::on, Choice::off}) {
      if (!may_be_faster(choice, best, budget)) continue;
      Plan other = fixed_strategy(choice).plan(budget);
      if (!builder.fits(other, budget)) continue;
      if (builder.fits(best, budget) && builder.step_seconds(other) >= builder.step_seconds(best)) continue;
      best = std::move(other);
      best.time.recompute_lower_bound = std::min(lower_bound, best.time.recompute + best.time.offload);
    }
    return with_reason(std::move(best));
  }

  /// Returns an approximate lower bound of the step time in seconds over all budgets. It begins with the plan without
  /// offload: that of keep-all, or that of the job's fixed strategy. From its time it subtracts the updates that may
  /// run on the host and the exchanges that may overlap other ops.
  double step_seconds_lower_bound() const {
    if (!search) return builder.step_seconds(builder.build_without_choices());
    const bool fixed = options.gradient_checkpointing != Choice::automatic;
    return (fixed ? fixed_strategy(options.gradient_checkpointing).step_seconds_lower_bound()
                  : step_seconds_lower_bound_without_overlap()) -
           builder.max_overlap_seconds_saved();
  }

  double step_seconds(const Plan& plan) const { return builder.step_seconds(plan); }
  int64_t keep_all_peak_lower_bound() const { return builder.keep_all_peak_lower_bound(); }

  /// Returns an approximate lower bound of the step time in seconds under `budget` bytes: the time of keep-all, plus a
  /// lower bound of the recomputation that the budget requires. Returns 0 (no bound) in these cases:
  ///  - The step is small: the plan itself is found quickly.
  ///  - The job may offload, or has a fixed strategy.
  ///  - The budget is below the minimum budget, so no plan fits.
  ///  - The budget is at least keep_all_peak_lower_bound(), so recomputation may not be needed.
  double step_seconds_lower_bound_under(int64_t budget) const {
    if (!search || builder.is_small() || variants || options.gradient_checkpointing != Choice::automatic) return 0;
    if (budget < minimum_budget() || builder.keep_all_peak_lower_bound() <= budget) return 0;
    const int64_t lower_bound = search->lower_bound(builder.transient_limit(budget, min_memory_plan->persistent_bytes));
    // The bound holds for a full micro batch without merged ops. Merging may shorten recomputation, so only
    // unmerged_recompute_fraction of the bound counts. A smaller last micro batch may need no recomputation, so none is
    // counted for it.
    const auto full_micro_batches =
        static_cast<double>(options.micro_batches - (builder.trace().segment(SegmentKind::remainder) ? 1 : 0));
    return builder.keep_all_step_seconds() - builder.max_overlap_seconds_saved() +
           options.solver.unmerged_recompute_fraction * static_cast<double>(lower_bound) * 1e-12 * full_micro_batches;
  }

 private:
  /// Returns `plan`, chosen for `budget`, with exchanges that overlap other ops, and with its reasons; it is validated.
  /// `reason`: that of the choice; nullopt: there was none.
  Plan finished(Plan plan, std::optional<int64_t> budget, const std::optional<Reason>& reason) const {
    if (reason) plan.reasons.insert(plan.reasons.begin(), *reason);
    plan.fits = builder.fits(plan, budget);
    plan.budget = options.budget;
    plan.budget.device = budget;
    plan.update_in_backward = base.choices.update_in_backward;
    if (plan.fits) plan = builder.with_scratch(builder.with_overlap(std::move(plan), budget), budget);
    if (plan.update_in_backward) plan.reasons.insert(plan.reasons.begin(), update_reason(options, plan));
    if (base.choices.loss_rows)
      plan.reasons.push_back(loss_rows_reason(base.heads, base.whole_peak - builder.keep_all_peak_lower_bound()));
    if (plan.fused_ops > 0) plan.reasons.push_back(fusion_reason(options, plan));
    if (const auto grouped = grouped_updates_of(plan.trace); grouped.groups + grouped.norm_groups > 0)
      plan.reasons.push_back(grouping_reason(options, grouped));
    if (plan.choices.exchange_limit_bytes >= 0) plan.reasons.push_back(overlap_reason(options, plan));
    return builder.validated(std::move(plan));
  }

  /// Returns an approximate lower bound of the step time in seconds if no exchange overlaps other ops: the keep-all
  /// plan, less the updates that may run on the host.
  double step_seconds_lower_bound_without_overlap() const {
    return builder.step_seconds(keep_all_plan()) - builder.max_update_seconds_saved();
  }

  /// Returns block checkpointing for `on` and keep-all for `off`. A strategy is made on first use.
  const FixedStrategy& fixed_strategy(Choice choice) const {
    auto& strategy = choice == Choice::on ? block_strategy : keep_all_strategy;
    if (strategy) return *strategy;
    RecomputeSolution solution =
        choice == Choice::on ? search->checkpoint_blocks(options.checkpointed_module) : search->keep_all_solution();
    const bool has_keep_all_plan = choice == Choice::off && options.gradient_checkpointing == Choice::automatic;
    Plan without_offload = has_keep_all_plan ? keep_all_plan() : builder.build(solution);
    strategy = std::make_unique<FixedStrategy>(builder, variants ? &*variants : nullptr, std::move(solution.kept),
                                               std::move(without_offload));
    return *strategy;
  }

  const Plan& min_memory_plan_of_all() const {
    if (options.gradient_checkpointing != Choice::automatic)
      return fixed_strategy(options.gradient_checkpointing).min_memory_plan();
    const Plan* least = &min_memory_plan_of_search();
    // Placing the plans of both strategies takes seconds in a large step. These plans are left out there, because the
    // search has already minimized live bytes.
    if (builder.is_small())
      for (const Choice choice : {Choice::on, Choice::off})
        if (const Plan& each = fixed_strategy(choice).min_memory_plan(); each.peak_bytes < least->peak_bytes)
          least = &each;
    return *least;
  }

  const Plan& min_memory_plan_of_search() const {
    const Plan* least = keep_all_plan_ && keep_all_plan_->peak_bytes <= min_memory_plan->peak_bytes ? &*keep_all_plan_
                                                                                                    : &*min_memory_plan;
    if (offload_planner && offload_planner->min_memory_plan() &&
        offload_planner->min_memory_plan()->peak_bytes < least->peak_bytes)
      least = &*offload_planner->min_memory_plan();
    return *least;
  }

  const Plan& keep_all_plan() const {
    if (!keep_all_plan_) keep_all_plan_ = builder.build(search->keep_all_solution());
    return *keep_all_plan_;
  }

  /// Returns the peak of the keep-all plan in bytes; a lower bound if it was never placed.
  int64_t keep_all_peak() const {
    return keep_all_plan_ ? keep_all_plan_->peak_bytes : builder.keep_all_peak_lower_bound();
  }

  // Returns whether the strategy `choice` may fit and, if `best` fits, be faster than `best`. Placing a plan of a large
  // step takes seconds, so a large step is first checked without placement:
  //  - Time: the lower bound of keep-all's step time, plus the time of the strategy's recomputed ops before merging.
  //  - Bytes: the live bytes of the strategy without offload or, if those do not fit, with as much offload as possible.
  bool may_be_faster(Choice choice, const Plan& best, std::optional<int64_t> budget) const {
    const bool best_fits = builder.fits(best, budget);
    if (best_fits && builder.step_seconds(best) <= step_seconds_lower_bound_without_overlap()) return false;
    if (!builder.is_small()) {
      const RecomputeSolution solution =
          choice == Choice::on ? search->checkpoint_blocks(options.checkpointed_module) : search->keep_all_solution();
      const double recompute_seconds =
          static_cast<double>(solution.cost) * 1e-12 * static_cast<double>(options.micro_batches);
      if (best_fits && step_seconds_lower_bound_without_overlap() + recompute_seconds >= builder.step_seconds(best))
        return false;
      const bool fits_without_offload =
          !budget || builder.transient_limit(*budget, min_memory_plan->persistent_bytes) >= solution.peak;
      if (!fits_without_offload && !(offload_planner && offload_planner->may_fit(solution.kept, *budget))) return false;
    }
    const FixedStrategy& strategy = fixed_strategy(choice);
    return (!budget || strategy.min_memory_plan().peak_bytes <= *budget) &&
           (!best_fits || strategy.step_seconds_lower_bound() < builder.step_seconds(best));
  }

  // Returns a placed plan of the recomputation search that fits `budget` bytes; nullopt: none was found. The search
  // counts live bytes. If the placed plan exceeds the budget, the search is repeated with a lower limit.
  std::optional<Plan> recompute_plan_within(int64_t budget) const {
    int64_t limit = builder.transient_limit(budget, min_memory_plan->persistent_bytes);
    std::optional<double> lower_bound;
    for (int attempt = 0; attempt < options.solver.max_placement_attempts; ++attempt) {
      const auto solution = search->cheapest(limit);
      if (!solution) return {};
      // Only the first attempt searches under the whole budget, so only its bound holds for the budget.
      if (!lower_bound) lower_bound = static_cast<double>(solution->lower_bound) * 1e-12;
      Plan plan = builder.build(*solution);
      plan.time.recompute_lower_bound = std::min(*lower_bound, plan.time.recompute);
      if (builder.fits(plan, budget)) return plan;
      // A limit at or above the solution's peak would return the same solution.
      limit = std::min(limit - (plan.peak_bytes - budget), solution->peak - 1);
    }
    return {};
  }

  // Tries to lower the peak of the minimum-memory plan. A choice with more live bytes may be placed in fewer bytes, and
  // the search for the minimum is not exact.
  void improve_min_memory_plan() {
    if (!builder.is_small()) return;
    for (int i = 0; i < options.solver.max_placement_attempts; ++i) {
      auto smaller = recompute_plan_within(min_memory_plan->peak_bytes - 1);
      if (!smaller) return;
      min_memory_plan = std::move(smaller);
    }
  }

  Plan plan_without_offload(std::optional<int64_t> budget) const {
    const int64_t minimum = std::min(keep_all_peak(), min_memory_plan->peak_bytes);
    // True if keep-all fits, or if it has the smallest peak. keep_all_peak() may be a lower bound. If the bound rules
    // keep-all out, the keep-all plan is not placed.
    const bool use_keep_all = (!budget || keep_all_peak() <= *budget || keep_all_peak() == minimum) &&
                              (builder.fits(keep_all_plan(), budget) || keep_all_plan().peak_bytes == minimum);
    Plan best = use_keep_all ? keep_all_plan() : *min_memory_plan;
    if (builder.fits(best, budget) && best.checkpointed) {
      const auto consider = [&](std::optional<Plan> plan) {
        if (!plan || plan->time.recompute >= best.time.recompute) return;
        best = std::move(*plan);
      };
      auto direct = recompute_plan_within(*budget);
      const double lower_bound = direct ? direct->time.recompute_lower_bound : 0;
      consider(std::move(direct));
      if (!options.minimize_step_time) return best;
      // Neither search nor placement is exact: a plan for a slightly smaller budget is sometimes faster.
      for (int percent : {1, 2, 4, 8})
        if (builder.is_small(percent == 1 ? 4 : 1))
          consider(recompute_plan_within(*budget - (*budget - minimum) * percent / 100));
      best.time.recompute_lower_bound = std::min(lower_bound, best.time.recompute);
    }
    return best;
  }

  const Base base;
  const ScheduleBuilder builder;
  const RecomputeSearch* search = nullptr;  // null: there is no training segment, and nothing to choose
  std::optional<OffloadVariants> variants;  // only if there is host memory or a disk
  // Plans of the search without offload.
  mutable std::optional<Plan> keep_all_plan_;  // made on first use
  std::optional<Plan> min_memory_plan;
  std::optional<OffloadPlanner> offload_planner;  // makes the plans with offload; only if there are variants
  mutable std::unique_ptr<FixedStrategy> block_strategy, keep_all_strategy;  // made on first use
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
  const bool fixed = options.update_in_backward == Choice::on;
  // If the job sets `on`, impl_ itself updates in backward, and there is no alternative.
  const auto add = [&](Impl::Base base) { others_.push_back(std::make_unique<Impl>(trace, options, std::move(base))); };
  impl_ = std::make_unique<Impl>(trace, options, Impl::Base{{.update_in_backward = fixed}});
  if (possible && !fixed) add({{.update_in_backward = true}});
  if (!options.row_slicing) return;
  std::vector<SlicedHead> heads;
  slice_rows(trace, *options.row_slicing, &heads);
  if (heads.empty()) return;
  const int64_t whole_peak = impl_->keep_all_peak_lower_bound();
  add({{.loss_rows = true, .update_in_backward = fixed}, heads, whole_peak});
  if (possible && !fixed) add({{.loss_rows = true, .update_in_backward = true}, heads, whole_peak});
}
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;

Plan Planner::plan() const {
  return plan(impl_->options.budget.device);
}

Plan Planner::plan(std::optional<int64_t> bytes) const {
  const double start = seconds_now();
  Plan plan = impl_->plan(bytes);
  const Impl* chosen = impl_.get();
  for (const auto& each : others_) {
    if (plan.fits &&
        (!impl_->options.minimize_step_time || each->step_seconds_lower_bound() >= chosen->step_seconds(plan)))
      continue;
    Plan other = each->plan(bytes);
    const bool better = plan.fits != other.fits ? other.fits
                        : plan.fits             ? each->step_seconds(other) < chosen->step_seconds(plan)
                                                : each->minimum_budget() < chosen->minimum_budget();
    if (!better) continue;
    plan = std::move(other);
    chosen = each.get();
  }
  plan.plan_seconds = seconds_now() - start;
  return plan;
}

double Planner::step_seconds_lower_bound(int64_t budget) const {
  if (others_.empty()) return impl_->step_seconds_lower_bound_under(budget);
  // Alternatives without a plan under `budget` do not count. If one that has a plan has no bound, there is none.
  std::optional<double> least;
  const auto add = [&](const Impl& impl) {
    if (impl.minimum_budget() > budget) return;
    const double seconds = impl.step_seconds_lower_bound_under(budget);
    least = std::min(least.value_or(seconds), seconds);
  };
  add(*impl_);
  for (const auto& each : others_) add(*each);
  return least.value_or(0);
}

int64_t Planner::minimum_budget() const {
  int64_t minimum = impl_->minimum_budget();
  for (const auto& each : others_) minimum = std::min(minimum, each->minimum_budget());
  return minimum;
}

Plan make_plan(const Trace& trace, const PlanOptions& options) {
  const double start = seconds_now();
  Plan plan = Planner(trace, options).plan();
  plan.plan_seconds = seconds_now() - start;
  return plan;
}

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
