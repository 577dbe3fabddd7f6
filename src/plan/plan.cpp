#include "plimsoll/plan.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "plan/explain/decision_reasons.h"
#include "plan/offload/arrangement.h"
#include "plan/offload_planner.h"
#include "plan/passes/group_updates.h"
#include "plan/passes/update_in_backward.h"
#include "plan/pipeline.h"
#include "plan/recompute/recompute_search.h"
#include "plan/schedules.h"
#include "plan/search_count.h"
#include "plan/treatment.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

void require_valid(const SolverParameters& solver) {
  const auto require = [](bool valid, const char* rule) {
    if (!valid) throw UserError(std::string("PlanOptions::solver: ") + rule);
  };
  require(solver.tree_search.orders >= 1 && solver.tree_search.orders <= 4, "tree_search.orders must be 1 to 4");
  require(solver.recompute.max_exhaustive_decisions <= 30, "recompute.max_exhaustive_decisions must be at most 30");
  require(solver.recompute.max_partial_solutions >= 2, "recompute.max_partial_solutions must be at least 2");
  require(solver.offload.max_exhaustive_combinations < size_t{1} << 20,
          "offload.max_exhaustive_combinations must be less than 2^20");
  require(solver.offload.max_evaluations >= solver.offload.min_evaluations,
          "offload.max_evaluations must be at least offload.min_evaluations");
  require(solver.offload.max_value_ratio >= 1 && solver.offload.max_buffer_ratio >= 1,
          "offload.max_value_ratio and offload.max_buffer_ratio must be at least 1");
  require(solver.offload.steps_per_kind >= 1, "offload.steps_per_kind must be at least 1");
  require(solver.merging.max_open_groups >= 1, "merging.max_open_groups must be at least 1");
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
    // Of large steps it is placed only where it may be the leanest, and when it is wanted.
    if (schedules.small() || schedules.least_at_once() <= leanest->peak_bytes) whole();
    look_for_leaner();
    if (arrangements) elsewhere.emplace(schedules, *arrangements, nullptr);
  }

  /// The least budget that fits.
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
    if (in_backward) plan.reasons.insert(plan.reasons.begin(), update_reason(options, plan));
    if (plan.fused_ops > 0) plan.reasons.push_back(fusing_reason(options, plan));
    if (const auto grouped = grouped_updates_of(plan.trace); grouped.groups > 0)
      plan.reasons.push_back(grouping_reason(options, grouped));
    plan = schedules.validated(std::move(plan));
    plan.plan_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return plan;
  }

  /// Hardly a plan takes fewer seconds a step: everything is kept, and updates that the host may do are left out.
  double least_seconds() const {
    if (!search) return schedules.step_of(schedules.unchanged());
    if (options.gradient_checkpointing != Choice::automatic)
      return treatment(options.gradient_checkpointing).least_seconds();
    return schedules.step_of(whole()) - schedules.update_seconds_saved();
  }

  double step_of(const Plan& plan) const { return schedules.step_of(plan); }

  /// Under a budget that everything kept exceeds, of a large step without other memory: that, and what has to run again
  /// at least. 0: not known.
  double least_seconds_under(int64_t budget) const {
    if (!search || schedules.small() || arrangements || options.gradient_checkpointing != Choice::automatic) return 0;
    if (budget < minimum() || schedules.least_at_once() <= budget) return 0;
    const int64_t bound = search->bound(schedules.limit_under(budget, leanest->persistent_bytes));
    // The last micro batch may be smaller than those that the bound is of.
    const auto whole_ones =
        static_cast<double>(options.micro_batches - (schedules.trace().segment("remainder") ? 1 : 0));
    return schedules.seconds_at_once() +
           options.solver.unmerged_recompute_fraction * static_cast<double>(bound) * 1e-12 * whole_ones;
  }

 private:
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
    // In large steps what the search finds goes by live bytes, of which it takes the least as well.
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

  /// What it takes; where it was never placed, at least.
  int64_t whole_peak() const { return whole_ ? whole_->peak_bytes : schedules.least_at_once(); }

  // What the search finds, or one of the treatments that a job may pin, where that takes less time: neither search nor
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

  // Whether that treatment may fit, and beat a plan. Of large steps by live bytes and by what ops take that do not run
  // within others: placing them only to see takes seconds.
  bool may_be_faster(Choice choice, const Plan& best, std::optional<int64_t> budget) const {
    const bool wanted = !schedules.fits(best, budget);
    if (!wanted && schedules.step_of(best) <= least_seconds()) return false;
    if (!schedules.small()) {
      const RecomputeAnswer answer =
          choice == Choice::on ? search->drop_blocks(options.checkpointed_module) : search->keep_everything();
      const double again = static_cast<double>(answer.cost) * 1e-12 * static_cast<double>(options.micro_batches);
      if (!wanted && least_seconds() + again >= schedules.step_of(best)) return false;
      const bool at_once = !budget || schedules.limit_under(*budget, leanest->persistent_bytes) >= answer.peak;
      if (!at_once && !(elsewhere && elsewhere->may_fit(answer.kept, *budget))) return false;
    }
    const Treatment& each = treatment(choice);
    return (!budget || each.leanest().peak_bytes <= *budget) &&
           (wanted || each.least_seconds() < schedules.step_of(best));
  }

  // Recomputed, kept or moved value by value.
  Plan search_under(std::optional<int64_t> budget) const {
    Plan best = choose_recomputation(budget);
    if (!elsewhere || !elsewhere->leanest()) return best;
    if (const Plan& least = leanest_searched(); budget && *budget < least.peak_bytes) return least;
    if (!schedules.fits(best, budget) || best.checkpointed) return elsewhere->choose(*budget, std::move(best));
    return best;
  }

  // The placed answer under a budget, or nothing. The search counts live bytes; where placement takes more, it is asked
  // for less.
  std::optional<Plan> recomputation_under(int64_t budget) const {
    int64_t limit = schedules.limit_under(budget, leanest->persistent_bytes);
    std::optional<double> bound;
    for (int attempt = 0; attempt < options.solver.max_placement_attempts; ++attempt) {
      const auto answer = search->cheapest(limit);
      if (!answer) return {};
      // Of the budget itself: later attempts aim lower than what is allowed.
      if (!bound) bound = static_cast<double>(answer->bound) * 1e-12;
      Plan plan = schedules.with(*answer);
      plan.time.recompute_bound = std::min(*bound, plan.time.recompute);
      if (schedules.fits(plan, budget)) return plan;
      // The same answer would be placed as before.
      limit = std::min(limit - (plan.peak_bytes - budget), answer->peak - 1);
    }
    return {};
  }

  // A choice that holds a little more may be placed in less, and the search for the leanest is not exact.
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
      // Neither search nor placement is exact: what fits in a little less is sometimes faster.
      for (int part : {1, 2, 4, 8})
        if (schedules.small(part == 1 ? 4 : 1))
          consider(recomputation_under(*budget - (*budget - minimum) * part / 100));
      best.time.recompute_bound = std::min(bound, best.time.recompute);
    }
    return best;
  }

  const bool in_backward;
  const Schedules schedules;
  const RecomputeSearch* search = nullptr;   // null: there is nothing to choose
  std::optional<Arrangements> arrangements;  // where there is other memory
  // Left to the search: nothing recomputed, the least that takes, and with other memory.
  mutable std::optional<Plan> whole_;
  std::optional<Plan> leanest;
  std::optional<OffloadPlanner> elsewhere;
  mutable std::unique_ptr<Treatment> blocks, everything;  // made when they are wanted
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
  // One that does not fit has no time.
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
