#include "train/strategies.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes_up.h"

namespace plimsoll {
namespace {

constexpr double kNotableWait = 0.01;  // part of a step

bool pays_for_memory(const Plan& plan) {
  return plan.checkpointed || plan.host_bytes + plan.disk_bytes > 0 || plan.time.norms > 0;
}

// Returns true if ops wait for exchanges for more than kNotableWait of the step. zero3 may then hide more of them: its
// gathers overlap with ops, those of zero2 come after the last op.
bool waits_for_exchanges(const PlannedJob& planned) {
  const ResolvedSettings& settings = planned.settings;
  if (!settings.cost.exchanges_overlap || settings.accumulation.empty()) return false;
  const StepExchanges exchanges = exchanges_of_step(
      settings.cost, planned.plan.trace, settings.accumulation.begin()->second, settings.last_micro_batch > 0);
  return exchanges.waited > kNotableWait * planned.step_seconds;
}

std::string reason_of_stated(Strategy strategy) {
  if (strategy != Strategy::zero1) return "as stated";
  return "as stated; gradients are exchanged as soon as each is there and are never whole on a rank, as with zero2";
}

// Returns the part of the parameters' bytes that a rank has memory to store whole in addition to the rest of zero3. It
// is computed from the minimum budgets of both, less a tenth, because plans are not proportional. 0: not worth a plan.
double whole_part_within(const Budget& budget, const Plan& second, const Plan& third) {
  const int64_t saved = second.minimum_budget_bytes - third.minimum_budget_bytes;
  if (!budget.device || saved <= 0) return 0;
  const double part = static_cast<double>(*budget.device - third.minimum_budget_bytes) / static_cast<double>(saved);
  return part < 0.1 ? 0 : 0.9 * std::min(part, 1.0);
}

void add_reason(PlannedJob& planned, const std::string& why) {
  const Reason reason{fmt::format("strategy: {}", name_of(planned.settings.strategy)), why};
  planned.settings.reasons.push_back(reason);
  planned.plan.reasons.push_back(reason);
}

}  // namespace

PlannedJob plan_strategies(const Job& job, const PlanTarget& target,
                           const std::function<PlannedJob(const Job&)>& plan) {
  if (job.devices < 2) return plan(job);
  const auto with = [&](Strategy strategy) {
    Job one = job;
    one.strategy = strategy;
    return plan(one);
  };
  if (job.strategy != Strategy::automatic) {
    PlannedJob planned = plan(job);
    add_reason(planned, reason_of_stated(job.strategy));
    return planned;
  }
  PlannedJob second = with(Strategy::zero2);
  if (second.plan.fits && !pays_for_memory(second.plan) && !waits_for_exchanges(second)) {
    add_reason(second,
               "each rank stores a slice of optimizer state and gradients, which costs no time on the links, and "
               "all parameters fit");
    return second;
  }
  PlannedJob third = with(Strategy::zero3);
  const auto needs = [](const PlannedJob& of) { return format_bytes_up(of.plan.minimum_budget_bytes); };
  std::string why;
  bool take_third = false;
  if (second.plan.fits && third.plan.fits) {
    take_third = third.step_seconds < second.step_seconds;
    const double fast = take_third ? third.step_seconds : second.step_seconds,
                 slow = take_third ? second.step_seconds : third.step_seconds;
    why = fmt::format("predicted {:.2f} times as fast as {}", slow / fast, take_third ? "zero2" : "zero3");
  } else if (second.plan.fits != third.plan.fits) {
    take_third = third.plan.fits;
    why = fmt::format("{} does not fit: it needs at least {}", take_third ? "zero2" : "zero3",
                      needs(take_third ? second : third));
  } else {
    take_third = third.plan.minimum_budget_bytes < second.plan.minimum_budget_bytes;
    why = "neither zero2 nor zero3 fits; this one needs less memory";
  }
  const int64_t least = std::min(second.plan.minimum_budget_bytes, third.plan.minimum_budget_bytes);
  // A strategy between the two: with zero3, the rest of the budget stores parameters that then need no exchange.
  const double part = whole_part_within(target.budget, second.plan, third.plan);
  PlannedJob chosen = std::move(take_third ? third : second);
  if (take_third && chosen.plan.fits && target.minimize_step_time && part > 0) {
    Job between = job;
    between.strategy = Strategy::zero3;
    between.whole_part = part;
    PlannedJob mixed = plan(between);
    if (mixed.plan.fits && mixed.step_seconds < chosen.step_seconds) {
      why += fmt::format(
          "; {:.0f} % of the parameters' bytes are stored whole on each rank, which the budget leaves room "
          "for: predicted {:.2f} times as fast as with slices of all",
          100 * part, chosen.step_seconds / mixed.step_seconds);
      chosen = std::move(mixed);
    }
  }
  if (target.minimize_step_time) chosen.plan.minimum_budget_bytes = least;
  add_reason(chosen, why);
  return chosen;
}

}  // namespace plimsoll
