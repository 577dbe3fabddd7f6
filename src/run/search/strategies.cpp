#include "run/search/strategies.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes_up.h"

namespace plimsoll {
namespace {

constexpr double kNotableWait = 0.01;  // part of a step

// Returns true if ops wait for exchanges for more than kNotableWait of the step. zero3 may then hide more of them: its
// gathers overlap with ops, those of zero2 come after the last op.
bool waits_for_exchanges(const PlannedTraining& planned) {
  const ResolvedSettings& settings = planned.settings;
  if (!settings.cost.exchanges_overlap) return false;
  const StepExchanges exchanges = exchanges_of_step(settings.cost, planned.plan.trace, settings.first_accumulation(),
                                                    settings.last_micro_batch > 0);
  return exchanges.waited > kNotableWait * planned.step_seconds;
}

std::string reason_of_stated(Strategy strategy) {
  if (strategy != Strategy::zero1) return "as stated";
  return "as stated; gradients are exchanged as soon as each is there and are never whole on a rank, as with zero2";
}

// Returns the part of the parameters' bytes that a rank has memory to store whole in addition to the rest of zero3. It
// is computed from the minimum budgets of both, less a tenth, because plans are not proportional. 0: not worth a plan.
double whole_part_within(const Budget& budget, const Found& second, const Found& third) {
  const int64_t saved = second.minimum_budget - third.minimum_budget;
  if (!budget.device || saved <= 0) return 0;
  const double part = static_cast<double>(*budget.device - third.minimum_budget) / static_cast<double>(saved);
  return part < 0.1 ? 0 : 0.9 * std::min(part, 1.0);
}

Found with_reason(Found found, const std::string& why) {
  ResolvedSettings& settings = found.planned.settings;
  settings.reasons.push_back({fmt::format("strategy: {}", name_of(settings.ranks.strategy)), why});
  return found;
}

}  // namespace

Found choose_strategy(const TrainingOptions& options, const Budget& budget, bool minimize_step_time,
                      const std::function<Found(const TrainingOptions&)>& plan) {
  if (options.ranks.count < 2) return plan(options);
  if (options.ranks.strategy != Strategy::automatic)
    return with_reason(plan(options), reason_of_stated(options.ranks.strategy));
  const auto with = [&](Strategy strategy, double whole_part = 0) {
    TrainingOptions one = options;
    one.ranks.strategy = strategy;
    one.ranks.whole_part = whole_part;
    return plan(one);
  };
  Found second = with(Strategy::zero2);
  if (second.fits() && !pays_for_memory(second.planned.plan) && !waits_for_exchanges(second.planned))
    return with_reason(std::move(second),
                       "each rank stores a slice of optimizer state and gradients, which costs no time on the links, "
                       "and all parameters fit");
  Found third = with(Strategy::zero3);
  const bool take_third = third.is_better_than(second);
  const Found &better = take_third ? third : second, &worse = take_third ? second : third;
  const std::string_view other = take_third ? "zero2" : "zero3";
  std::string why = "neither zero2 nor zero3 fits; this one needs less memory";
  if (worse.fits())
    why = fmt::format("predicted {:.2f} times as fast as {}", worse.planned.step_seconds / better.planned.step_seconds,
                      other);
  else if (better.fits())
    why = fmt::format("{} does not fit: it needs at least {}", other, format_bytes_up(worse.minimum_budget));
  const int64_t least = std::min(second.minimum_budget, third.minimum_budget);
  // A strategy between the two: with zero3, the rest of the budget stores parameters that then need no exchange.
  const double part = whole_part_within(budget, second, third);
  Found chosen = std::move(take_third ? third : second);
  if (take_third && chosen.fits() && minimize_step_time && part > 0) {
    Found mixed = with(Strategy::zero3, part);
    if (mixed.fits() && mixed.planned.step_seconds < chosen.planned.step_seconds) {
      why += fmt::format(
          "; {:.0f} % of the parameters' bytes are stored whole on each rank, which the budget leaves room "
          "for: predicted {:.2f} times as fast as with slices of all",
          100 * part, chosen.planned.step_seconds / mixed.planned.step_seconds);
      chosen = std::move(mixed);
    }
  }
  if (minimize_step_time) chosen.minimum_budget = least;
  return with_reason(std::move(chosen), why);
}

}  // namespace plimsoll
