#include "run/search/strategies.h"

#include <fmt/format.h>

#include <string_view>

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

}  // namespace

std::optional<TrainingOptions> StrategyChoice::next() const {
  TrainingOptions options = options_;
  if (!is_open()) return found_.empty() ? std::optional(options) : std::nullopt;
  options.ranks.whole_part = 0;
  options.ranks.strategy = found_.empty() ? Strategy::zero2 : Strategy::zero3;
  if (found_.size() == 1) {
    const Found& second = found_[0];
    if (second.fits() && !pays_for_memory(second.planned.plan) && !waits_for_exchanges(second.planned)) return {};
  } else if (found_.size() == 2) {
    // A strategy between the two: with zero3, the rest of the budget stores parameters that then need no exchange.
    options.ranks.whole_part = whole_part();
    if (options.ranks.whole_part == 0) return {};
  } else if (!found_.empty()) {
    return {};
  }
  return options;
}

// Returns the part of the parameters' bytes that a rank has memory to store whole in addition to the rest of zero3. It
// is computed from the minimum budgets of both, less a tenth, because plans are not proportional. 0: not worth a plan.
double StrategyChoice::whole_part() const {
  const Found &second = found_[0], &third = found_[1];
  if (!minimize_step_time_ || !third.fits() || !third.is_better_than(second)) return 0;
  const int64_t saved = second.minimum_budget - third.minimum_budget;
  if (!budget_.device || saved <= 0) return 0;
  const double part = static_cast<double>(*budget_.device - third.minimum_budget) / static_cast<double>(saved);
  return part < 0.1 ? 0 : 0.9 * std::min(part, 1.0);
}

Found StrategyChoice::result() && {
  Found best = std::move(found_[0]);
  if (options_.ranks.count < 2) return best;
  std::string why = reason_of_stated(options_.ranks.strategy);
  if (is_open())
    why =
        "each rank stores a slice of optimizer state and gradients, which costs no time on the links, and all "
        "parameters fit";
  if (found_.size() > 1) {
    Found other = std::move(found_[1]);
    const bool take_third = other.is_better_than(best);
    const std::string_view name = take_third ? "zero2" : "zero3";
    if (take_third) std::swap(best, other);
    why = "neither zero2 nor zero3 fits; this one needs less memory";
    if (other.fits())
      why = fmt::format("predicted {:.2f} times as fast as {}", other.planned.step_seconds / best.planned.step_seconds,
                        name);
    else if (best.fits())
      why = fmt::format("{} does not fit: it needs at least {}", name, format_bytes_up(other.minimum_budget));
    best.add(std::move(other));
  }
  if (found_.size() > 2 && found_[2].is_better_than(best)) {
    PlannedTraining& mixed = found_[2].planned;
    why += fmt::format(
        "; {:.0f} % of the parameters' bytes are stored whole on each rank, which the budget leaves room "
        "for: predicted {:.2f} times as fast as with slices of all",
        100 * mixed.settings.ranks.whole_part, best.planned.step_seconds / mixed.step_seconds);
    best.planned = std::move(mixed);
  }
  ResolvedSettings& settings = best.planned.settings;
  settings.reasons.push_back({fmt::format("strategy: {}", name_of(settings.ranks.strategy)), why});
  return best;
}

}  // namespace plimsoll
