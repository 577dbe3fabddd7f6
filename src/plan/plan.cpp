#include "plimsoll/plan.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

#include "plan/arrangement.h"
#include "plan/decision_reasons.h"
#include "plan/explain.h"
#include "plan/lay_out.h"
#include "plan/passes/fuse_pointwise.h"
#include "plan/passes/group_updates.h"
#include "plan/passes/recompute.h"
#include "plan/passes/update_in_backward.h"
#include "plan/pipeline.h"
#include "plan/recompute_search.h"
#include "plan/validator.h"
#include "plimsoll/error.h"
#include "plimsoll/liveness.h"

namespace plimsoll {
namespace {

void learn_workspace(Trace& trace, const WorkspaceModel& model) {
  if (!model) return;
  for (Op& op : trace.ops)
    if (const auto bytes = model(op)) op.workspace_bytes = placed_bytes(trace, *bytes);
}

// How often a schedule is laid out anew because placement took more than the sum of live bytes.
constexpr int kMostAttempts = 12;

// Larger traces are not planned under budgets nearby as well: that would take seconds.
constexpr size_t kOpsLookedAround = 1500;

// In how many steps it is found out how much of a kind (gradients, parameters) must lie elsewhere.
constexpr int kStepsOfAKind = 8;

// Kinds of rebuilt values that have a reason of their own.
constexpr size_t kKindsExplained = 6;

// Several segments may update one parameter, and an op on the host writes a copy of one that lies on the device.
int64_t parameters_updated_on_host(const Trace& trace) {
  std::vector<BufferId> copied_to(trace.buffers.size(), kNoBuffer);
  for (const Op& op : trace.ops)
    if (op.copy == CopyStage::start) copied_to[op.arguments[1].views[0].buffer] = op.arguments[0].views[0].buffer;
  std::set<BufferId> parameters;
  for (const Op& op : trace.ops)
    if (op.on_host)
      for_each_view(op, [&](const View& view, bool written) {
        const Buffer& buffer = trace.buffers[view.buffer];
        if (written && buffer.role == Role::parameter)
          parameters.insert(buffer.persistent ? view.buffer : copied_to[view.buffer]);
      });
  return static_cast<int64_t>(parameters.size());
}

}  // namespace

struct Planner::Impl {
  const PlanOptions options;

  Impl(const Trace& trace, const PlanOptions& plan_options, bool updates_in_backward)
      : options(plan_options), in_backward(updates_in_backward), prepared(trace) {
    learn_workspace(prepared, options.workspace);
    prepared = prepare_trace(std::move(prepared), in_backward);
    if (!prepared.segment("micro")) return;
    search.emplace(prepared, options.cost);
    const Trace all = fuse_trace(prepared, options);
    micro_at_once = segment_seconds(options.cost, all, "micro");
    update_at_once = segment_seconds(options.cost, all, "update");
    std::optional<KeptValues> pinned_kept;
    switch (options.gradient_checkpointing) {
      case Choice::off:
        pinned = schedule(search->keep_everything());
        pinned_kept = search->keep_everything().kept;
        pinned->reasons.insert(pinned->reasons.begin(), pinned_reason(options, *pinned));
        break;
      case Choice::on:
        pinned = schedule(search->drop_blocks(options.checkpointed_module));
        pinned_kept = search->drop_blocks(options.checkpointed_module).kept;
        pinned->reasons.insert(pinned->reasons.begin(), pinned_reason(options, *pinned));
        break;
      case Choice::automatic:
        whole = schedule(search->keep_everything());
        leanest = schedule(search->leanest());
        look_for_leaner();
        break;
    }
    const bool disk = options.disk_budget > 0 && options.cost.disk_link > 0;
    if ((options.host_memory_budget <= 0 && !disk) || options.cost.host_link <= 0) return;
    elsewhere.emplace(prepared, *search, options, pinned_kept);
    const int kinds = elsewhere->candidates().kinds();
    // The most away takes least, but for what placement loses here and there.
    const bool look_around = prepared.ops.size() <= kOpsLookedAround;
    for (int part = look_around ? std::min(kinds, 1) : kinds; part <= kinds; ++part)
      for (const bool on_host : {false, true}) {
        if (on_host && options.cost.host_bytes <= 0) continue;
        auto plan = leanest_with(part, on_host);
        if (plan && (!afar || plan->peak_bytes < afar->peak_bytes)) afar = std::move(plan);
      }
  }

  /// The least budget that fits.
  int64_t minimum() const {
    if (!search) return lay_out(prepared, options).peak_bytes;
    int64_t least = pinned ? pinned->peak_bytes : std::min(whole->peak_bytes, leanest->peak_bytes);
    if (afar) least = std::min(least, afar->peak_bytes);
    return least;
  }

  Plan plan(std::optional<int64_t> budget) const {
    const auto start = std::chrono::steady_clock::now();
    Plan plan = !search ? timed(lay_out(prepared, options)) : choose(budget);
    plan.fits = fits(plan, budget);
    plan.budget_bytes = budget.value_or(0);
    plan.host_budget_bytes = options.host_memory_budget;
    plan.update_in_backward = in_backward;
    plan.disk_budget_bytes = options.disk_budget;
    if (plan.minimum_budget_bytes == 0) plan.minimum_budget_bytes = plan.peak_bytes;
    if (in_backward) plan.reasons.insert(plan.reasons.begin(), update_reason(options, plan));
    if (plan.fused_ops > 0) plan.reasons.push_back(fusing_reason(options, plan));
    if (const auto grouped = grouped_updates_of(plan.trace); grouped.groups > 0)
      plan.reasons.push_back(grouping_reason(options, grouped));
    if (const std::string fault = find_fault(plan); !fault.empty()) throw InternalError("unsound plan: " + fault);
    plan.plan_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return plan;
  }

  /// The predicted seconds of a step.
  double step_of(const Plan& plan) const {
    const bool ragged = options.micro_batches > 1 && prepared.segment("remainder") != nullptr;
    return plan.time.step(options.micro_batches, ragged);
  }

 private:
  // A finished schedule.
  Plan placed(Trace trace) const {
    if (options.on_schedule) options.on_schedule();
    Plan plan = lay_out(fuse_trace(std::move(trace), options), options);
    plan.fused_ops = fused_ops_of(plan.trace);
    return plan;
  }

  Plan timed(Plan plan) const {
    StepTime& time = plan.time;
    time.norms = segment_seconds(options.cost, plan.trace, "norms");
    time.micro = segment_seconds(options.cost, plan.trace, "micro");
    time.accumulate = segment_seconds(options.cost, plan.trace, "accumulate");
    time.remainder = segment_seconds(options.cost, plan.trace, "remainder");
    time.last = segment_seconds(options.cost, plan.trace, "last");
    time.update = segment_seconds(options.cost, plan.trace, "update");
    time.finish = segment_seconds(options.cost, plan.trace, "finish");
    return plan;
  }

  Plan schedule(const RecomputeAnswer& answer) const {
    std::vector<RecomputeChoice> choices;
    for (const TrainingGraph& graph : search->graphs()) choices.push_back({&graph, answer.kept});
    Plan plan = timed(placed(recompute(prepared, choices)));
    plan.checkpointed = answer.cost > 0;
    plan.time.recompute = static_cast<double>(answer.cost) * 1e-12;
    plan.time.recompute_bound = static_cast<double>(answer.bound) * 1e-12;
    plan.reasons = explain_recomputation(prepared, search->graphs().front(), answer.kept, kKindsExplained);
    return plan;
  }

  Plan schedule(const Arrangement& arrangement, const OffloadAnswer& answer, bool host_updates, int64_t limit) const {
    Plan plan = timed(
        placed(arrangement.moving->carried_out(arrangement.trace, answer.kept, answer.moved, host_updates, limit)));
    int64_t again = 0;
    for (const Rebuild& rebuild : rebuilds_of(search->graphs().front(), answer.kept))
      for (int32_t step : rebuild.steps) again += search->graphs().front().steps[step].cost;
    plan.checkpointed = again > 0;
    plan.moved_bytes = answer.host;
    plan.moved_state_bytes = arrangement.away.state;
    plan.moved_gradient_bytes = arrangement.away.gradients;
    plan.moved_parameter_bytes = arrangement.away.parameters;
    plan.host_updates = parameters_updated_on_host(plan.trace);
    plan.host_budget_bytes = options.host_memory_budget;
    StepTime& time = plan.time;
    time.recompute = static_cast<double>(again) * 1e-12;
    time.offload = std::max(0.0, time.micro - micro_at_once - time.recompute);
    time.update_offload = std::max(0.0, time.update - update_at_once);
    plan.reasons = explain_offload(prepared, search->graphs().front(), answer.moved, options.cost, plan);
    const auto recomputed = explain_recomputation(prepared, search->graphs().front(), answer.kept, kKindsExplained);
    plan.reasons.insert(plan.reasons.end(), recomputed.begin(), recomputed.end());
    return plan;
  }

  bool fits(const Plan& plan, std::optional<int64_t> budget) const {
    return (!budget || plan.peak_bytes <= *budget) && plan.host_bytes <= options.host_memory_budget &&
           plan.disk_bytes <= options.disk_budget;
  }

  // What is left of a budget for what lives only for a while.
  int64_t limit_under(int64_t budget, int64_t persistent) const {
    return budget - options.context_bytes - options.library_bytes - persistent;
  }

  Plan choose(std::optional<int64_t> budget) const {
    Plan best = pinned ? *pinned : choose_recomputation(budget);
    if (afar) {
      const int64_t minimum = std::min(pinned ? best.peak_bytes : best.minimum_budget_bytes, afar->peak_bytes);
      if (budget && *budget < minimum)
        best = afar->peak_bytes < best.peak_bytes ? *afar : best;
      else if (!fits(best, budget) || (best.checkpointed && !pinned))
        best = choose_offload(*budget, std::move(best));
      best.minimum_budget_bytes = minimum;
    }
    if (!pinned)
      best.reasons.insert(best.reasons.begin(), recompute_reason(best, fits(best, budget), whole->peak_bytes, budget));
    return best;
  }

  // The placed answer under a budget, or nothing. The search counts live bytes; where placement takes more, it is asked
  // for less.
  std::optional<Plan> recomputation_under(int64_t budget) const {
    int64_t limit = limit_under(budget, whole->persistent_bytes);
    std::optional<double> bound;
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      const auto answer = search->cheapest(limit);
      if (!answer) return {};
      // Of the budget itself: later attempts aim lower than what is allowed.
      if (!bound) bound = static_cast<double>(answer->bound) * 1e-12;
      Plan plan = schedule(*answer);
      plan.time.recompute_bound = std::min(*bound, plan.time.recompute);
      if (fits(plan, budget)) return plan;
      // The same answer would be placed as before.
      limit = std::min(limit - (plan.peak_bytes - budget), answer->peak - 1);
    }
    return {};
  }

  // A choice that holds a little more may be placed in less, and the search for the leanest is not exact.
  void look_for_leaner() {
    if (prepared.ops.size() > kOpsLookedAround) return;
    for (int i = 0; i < kMostAttempts; ++i) {
      auto leaner = recomputation_under(leanest->peak_bytes - 1);
      if (!leaner) return;
      leanest = std::move(leaner);
    }
  }

  Plan choose_recomputation(std::optional<int64_t> budget) const {
    const int64_t minimum = std::min(whole->peak_bytes, leanest->peak_bytes);
    Plan best = fits(*whole, budget) || whole->peak_bytes == minimum ? *whole : *leanest;
    if (fits(best, budget) && best.checkpointed) {
      const auto consider = [&](std::optional<Plan> plan) {
        if (!plan || plan->time.recompute >= best.time.recompute) return;
        best = std::move(*plan);
      };
      auto direct = recomputation_under(*budget);
      const double bound = direct ? direct->time.recompute_bound : 0;
      consider(std::move(direct));
      // Neither search nor placement is exact: what fits in a little less is sometimes faster.
      for (int part : {1, 2, 4, 8})
        if (prepared.ops.size() <= (part == 1 ? 4 : 1) * kOpsLookedAround)
          consider(recomputation_under(*budget - (*budget - minimum) * part / 100));
      best.time.recompute_bound = std::min(bound, best.time.recompute);
    }
    best.minimum_budget_bytes = minimum;
    return best;
  }

  // The least peak with that part away, if both other memories have room.
  std::optional<Plan> leanest_with(double part, bool host_updates) const {
    int64_t room = options.host_memory_budget;
    for (int attempt = 0; attempt < kMostAttempts && room >= 0; ++attempt) {
      const Arrangement& arrangement = elsewhere->at(part, room);
      Plan plan = schedule(arrangement, arrangement.moving->leanest(room - arrangement.away.host), host_updates, 0);
      const int64_t over = plan.host_bytes - options.host_memory_budget;
      if (over <= 0) return plan;
      room -= over;
    }
    return {};
  }

  // The least time of a step with host memory, if that is less than `best`, or if nothing fits without.
  Plan choose_offload(int64_t budget, Plan best) const {
    const AwayCandidates& candidates = elsewhere->candidates();
    const auto consider = [&](Plan plan) {
      if (!fits(plan, budget)) return false;
      if (!fits(best, budget) || step_of(plan) < step_of(best)) best = std::move(plan);
      return true;
    };
    const bool large = prepared.ops.size() > kOpsLookedAround;
    const auto leanest_peak = [&](const Arrangement& each) {
      return each.moving->leanest(options.host_memory_budget).peak;
    };
    int64_t lost = 0;  // what placement took beyond the live bytes of the last part that was tried
    std::set<std::vector<Memory>> tried;
    const auto try_part = [&](double part) {
      const Arrangement& arrangement = elsewhere->at(part, options.host_memory_budget);
      if (!tried.insert(arrangement.away.memory).second) return;
      const int64_t all = limit_under(budget, arrangement.persistent_bytes);
      if (large && !fits(best, budget) && leanest_peak(arrangement) > all) return;
      int64_t limit = large && arrangement.away.in_training ? all - lost : all;
      int64_t host = options.host_memory_budget - arrangement.away.host;
      for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
        const auto answer = arrangement.moving->cheapest(limit, std::max<int64_t>(host, 0));
        if (!answer && limit == all - lost && limit < all) {
          limit = all;
          continue;
        }
        if (!answer) return;
        Plan plan = schedule(arrangement, *answer, /*host_updates=*/false, limit);
        const int64_t over = plan.peak_bytes - budget, host_over = plan.host_bytes - options.host_memory_budget;
        if (consider(std::move(plan))) {
          lost = all - limit;
          if (arrangement.away.state > 0 && options.cost.host_bytes > 0)
            consider(schedule(arrangement, *answer, /*host_updates=*/true, limit));
          return;
        }
        if (over <= 0 && host <= 0) return;  // nothing is left to take away
        if (over > 0) limit = std::min(limit - over, answer->peak - 1);
        host -= std::max<int64_t>(host_over, 0);
      }
    };
    // What lies elsewhere takes at least its copies, against all that is left to gain.
    const auto worth_trying = [&](double part) {
      const double gain = (best.time.recompute + best.time.offload) * static_cast<double>(options.micro_batches) +
                          best.time.update_offload;
      return !fits(best, budget) ||
             candidates.least_seconds(elsewhere->at(part, options.host_memory_budget).away, options.cost) < gain;
    };
    try_part(0);
    const int kinds = candidates.kinds();
    if (kinds > 0)
      for (double part : {1.0, 0.5, 0.25, 0.75})
        if (worth_trying(part)) try_part(part);
    if (fits(best, budget)) {
      for (int whole = 2; whole <= kinds; ++whole)
        for (double part : {static_cast<double>(whole), whole - 0.5})
          if (worth_trying(part)) try_part(part);
    } else if (kinds > 1) {
      // The least part with which something fits, and some more: bytes that are free again save time elsewhere.
      const auto possible = [&](int step) {
        const Arrangement& each = elsewhere->at(static_cast<double>(step) / kStepsOfAKind, options.host_memory_budget);
        return leanest_peak(each) <= limit_under(budget, each.persistent_bytes);
      };
      int low = kStepsOfAKind + 1, high = kinds * kStepsOfAKind;
      while (low < high) {
        const int middle = (low + high) / 2;
        if (possible(middle))
          high = middle;
        else
          low = middle + 1;
      }
      std::vector<int> steps{low, (low + kStepsOfAKind) / kStepsOfAKind * kStepsOfAKind, kinds * kStepsOfAKind};
      if (!large) steps.insert(steps.begin() + 1, {low + 1, low + 3});
      for (int step : steps)
        if (step <= kinds * kStepsOfAKind) try_part(static_cast<double>(step) / kStepsOfAKind);
    }
    consider(*afar);
    if (!fits(best, budget)) return *afar;
    const Arrangement& most = elsewhere->at(kinds, std::numeric_limits<int64_t>::max() / 4);
    best.time.recompute_bound =
        std::min(best.time.recompute + best.time.offload,
                 most.moving->bound(limit_under(budget, most.persistent_bytes), options.host_memory_budget));
    return best;
  }

  const bool in_backward;
  Trace prepared;
  double micro_at_once = 0, update_at_once = 0;  // seconds of these segments where nothing is moved or run again
  std::optional<RecomputeSearch> search;
  std::optional<Arrangements> elsewhere;
  std::optional<Plan> pinned, whole, leanest, afar;
};

Planner::Planner(const Trace& trace, const PlanOptions& options) {
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
  const bool as_fast_as_can_be = plan.fits && !plan.checkpointed && plan.host_bytes == 0 && plan.disk_bytes == 0;
  if (!as_fast_as_can_be) {
    Plan other = in_backward_->plan(memory_budget);
    const bool better = plan.fits != other.fits ? other.fits
                        : plan.fits             ? in_backward_->step_of(other) < impl_->step_of(plan)
                                                : other.minimum_budget_bytes < plan.minimum_budget_bytes;
    if (better) plan = std::move(other);
  }
  plan.minimum_budget_bytes = minimum;
  return plan;
}

Plan make_plan(const Trace& trace, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = Planner(trace, options).plan(options.memory_budget);
  plan.plan_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace plimsoll
