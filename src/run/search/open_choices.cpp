#include "run/search/open_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/process.h"
#include "base/text.h"
#include "run/search/process_budget.h"

namespace plimsoll {

namespace {

bool never_accumulates(const TrainingOptions& options) {
  if (!options.gradient_accumulation_steps) return options.batch_size.value_or(1) == 1;
  return std::ranges::all_of(*options.gradient_accumulation_steps, [](const auto& entry) { return entry.second == 1; });
}

}  // namespace

std::vector<TrainingOptions> format_choices(const TrainingOptions& options) {
  // The smallest effect on the loss curve comes first (docs/optimizers.md): state of 8 bits before the float32 with
  // bfloat16 weights, accumulators of 8 bits before state of 4.
  using S = StateDtype;
  using W = WeightUpdate;
  using A = AccumulatorDtype;
  constexpr std::tuple<S, W, A> ladder[] = {
      {S::float32, W::split, A::float32},     {S::bits8, W::split, A::float32},    {S::bits8, W::split, A::bfloat16},
      {S::bits8, W::stochastic, A::bfloat16}, {S::bits8, W::stochastic, A::bits8}, {S::bits4, W::stochastic, A::bits8},
  };
  // A format without an effect is no choice.
  const bool whole = options.precision != Precision::automatic && options.precision != Precision::bf16_true &&
                     (!options.dtype || *options.dtype == DType::float32);
  const bool stateless =
      options.optimizer.name == "adafactor" || (options.optimizer.name == "sgd" && options.optimizer.momentum == 0);
  std::vector<TrainingOptions> choices;
  for (auto [state, update, accumulator] : ladder) {
    if (options.optimizer.state_dtype != S::automatic)
      state = options.optimizer.state_dtype;
    else if (stateless)
      state = S::as_parameters;
    if (options.optimizer.weight_update != W::automatic)
      update = options.optimizer.weight_update;
    else if (whole)
      update = W::stochastic;
    else if (options.dtype == DType::float16 && update == W::split)
      update = W::kahan;  // a 16-bit remainder extends only bfloat16 to float32
    if (options.accumulator_dtype != A::automatic)
      accumulator = options.accumulator_dtype;
    else if (never_accumulates(options))
      accumulator = A::as_gradients;
    else if (options.ranks.count > 1)
      accumulator = A::float32;  // sums of several devices cannot be rounded at random (optimizer/accumulators.h)
    const auto is_known = [&](const TrainingOptions& each) {
      return each.optimizer.state_dtype == state && each.optimizer.weight_update == update &&
             each.accumulator_dtype == accumulator;
    };
    if (std::ranges::any_of(choices, is_known)) continue;
    TrainingOptions& choice = choices.emplace_back(options);
    choice.optimizer.state_dtype = state;
    choice.optimizer.weight_update = update;
    choice.accumulator_dtype = accumulator;
  }
  return choices;
}

std::string describe_formats(const TrainingOptions& options, const TrainingOptions& chosen) {
  std::string words;
  const auto add = [&](const char* key, std::string_view value) {
    words += (words.empty() ? "" : ", ") + std::string(key) + " " + std::string(value);
  };
  if (options.optimizer.state_dtype == StateDtype::automatic) add("state_dtype", name_of(chosen.optimizer.state_dtype));
  if (options.optimizer.weight_update == WeightUpdate::automatic)
    add("weight_update", name_of(chosen.optimizer.weight_update));
  if (options.accumulator_dtype == AccumulatorDtype::automatic)
    add("gradient_accumulation_dtype", name_of(chosen.accumulator_dtype));
  return words;
}

namespace {

// Ratio of minimum budget and budget above which a large step is not planned again only to report its need.
constexpr double kByFar = 1.05;

}  // namespace

std::vector<int64_t> candidate_micro_batches(int64_t batch_size) {
  std::set<int64_t> divisors;
  for (int64_t each = 1; each * each <= batch_size; ++each)
    if (batch_size % each == 0) divisors.insert({each, batch_size / each});
  std::set<int64_t> sizes = divisors;
  for (int64_t count = 2; count < batch_size; count *= 2) {
    const int64_t size = (batch_size + count - 1) / count;
    const auto above = divisors.lower_bound(size);
    if (*above != size && *above > 2 * *std::prev(above)) sizes.insert(size);
  }
  return {sizes.begin(), sizes.end()};
}

MicroBatchSearch::MicroBatchSearch(const StepOfSize& step, TrainingOptions options, const PlanTarget& target,
                                   const SearchOptions& search)
    : step_(step), options_(std::move(options)), target_(target), search_(search) {
  if (options_.micro_batch_size) {
    open_.push_back({*options_.micro_batch_size, *options_.gradient_accumulation_steps, nullptr});
    return;
  }
  // With several devices, all micro batches have the same size. Updates in backward that wait for the norm of all
  // gradients need a single micro batch.
  const int64_t batch = *options_.batch_size;
  const bool single = options_.update_in_backward == Choice::on &&
                      (options_.max_grad_norm > 0 || options_.precision == Precision::fp16_mixed);
  for (int64_t size : candidate_micro_batches(batch))
    if ((!single || size == batch) && (options_.ranks.count == 1 || batch % size == 0))
      open_.push_back({size, {{0, (batch + size - 1) / size}}, nullptr});
}

StepCandidate& MicroBatchSearch::candidate(size_t index) {
  Open& requested = open_[index];
  if (!requested.candidate) {
    if (is_tight(target_.budget)) release();
    TrainingOptions options = options_;
    options.micro_batch_size = requested.micro_batch_size;
    options.gradient_accumulation_steps = requested.accumulation;
    requested.candidate = std::make_unique<StepCandidate>(step_, options, target_, search_);
  }
  return *requested.candidate;
}

void MicroBatchSearch::release() {
  for (Open& each : open_) each.candidate.reset();
  release_free_memory();
}

void MicroBatchSearch::make_room() {
  if (is_tight(target_.budget)) release();
}

int64_t MicroBatchSearch::minimum_budget_of(size_t index) {
  return candidate(index).plan(1, true).minimum_budget;
}

int64_t MicroBatchSearch::minimum_budget() {
  const int64_t smallest = minimum_budget_of(0);
  return std::min(smallest, minimum_budget_of(open_.size() - 1));
}

Found MicroBatchSearch::choose(std::optional<int64_t> budget) {
  enum class Fit : uint8_t { unknown, no, with_extra_time, whole };
  std::vector<Fit> fits(open_.size(), Fit::unknown);
  std::optional<Found> best;
  int64_t minimum = std::numeric_limits<int64_t>::max();
  size_t evaluated = 0;
  std::vector<bool> counted(fits.size(), false);  // true: included in the minimum
  // Plans a size, if it is not known whether it fits or if `exact`.
  const auto fit_of = [&](size_t i, bool exact = false) {
    if (fits[i] != Fit::unknown && !exact) return fits[i];
    StepCandidate& tried = candidate(i);
    evaluated += fits[i] == Fit::unknown;
    // It fits, and is not the fastest: searching its own fastest plan is useless.
    if (!exact && search_.minimize_step_time && best && best->fits() &&
        tried.takes_longer_than(best->planned.step_seconds, budget)) {
      minimum = std::min(minimum, tried.minimum_budget());
      counted[i] = true;
      return fits[i] = Fit::with_extra_time;
    }
    Found found = tried.plan(budget, exact);
    const Plan& plan = found.planned.plan;
    if (plan.fits || exact) {
      minimum = std::min(minimum, found.minimum_budget);
      counted[i] = true;
    }
    fits[i] = !plan.fits ? Fit::no : pays_for_memory(plan) ? Fit::with_extra_time : Fit::whole;
    if (!best || found.is_better_than(*best)) best = std::move(found);
    return fits[i];
  };
  size_t end = fits.size();  // sizes from here on do not fit
  // Either the smallest has the smallest need, or the largest, which need not accumulate. If both need far more than
  // the budget, none between them fits.
  const auto misfits_by_far = [&](size_t i) {
    return fit_of(i) == Fit::no && candidate(i).large() &&
           static_cast<double>(best->minimum_budget) > kByFar * static_cast<double>(*budget);
  };
  const bool none = budget && misfits_by_far(end - 1) && misfits_by_far(0);
  if (none) {
    end = 0;
    if (search_.minimize_step_time)
      for (const size_t i : {size_t{0}, fits.size() - 1})
        if (!counted[i]) fit_of(i, true);
  } else if (fit_of(end - 1) == Fit::no) {
    size_t begin = 0;  // sizes before it fit
    for (--end; begin < end;) {
      const size_t middle = begin + (end - begin) / 2;
      if (fit_of(middle) == Fit::no)
        end = middle;
      else
        begin = middle + 1;
    }
    // Bisection alone does not prove that nothing fits.
    if (end == 0 && search_.minimize_step_time) {
      best.reset();
      for (size_t i = fits.size(); i-- > 0;) fit_of(i, true);
    }
  }
  // Search and placement are not exact, and scratch depends on the shape. A size that does not fit may be smaller
  // than one that does.
  for (size_t i = end; !none && i < std::min(end + 3, fits.size()); ++i) fit_of(i);
  if (!search_.minimize_step_time && best->fits()) end = 0;
  while (end > 0 && fit_of(end - 1) != Fit::whole) --end;
  // Either the smallest has the smallest need, or the largest, which need not accumulate. A budget that is too small
  // is planned fastest.
  if (search_.minimize_step_time)
    for (const size_t i : {size_t{0}, fits.size() - 1})
      if (!counted[i]) minimum = std::min(minimum, minimum_budget_of(i));
  ResolvedSettings& settings = best->planned.settings;
  if (!options_.micro_batch_size)
    settings.reasons.push_back(
        {fmt::format("micro_batch_size: {}", settings.micro_batch()), micro_batch_reason(best->planned, evaluated)});
  return {std::move(best->planned), search_.minimize_step_time ? minimum : best->minimum_budget};
}

std::string MicroBatchSearch::micro_batch_reason(const PlannedTraining& planned, size_t evaluated) const {
  const int64_t batch = *options_.batch_size;
  if (!planned.plan.fits) {
    if (open_.size() == 1) return fmt::format("the whole batch_size, {}, does not fit", batch);
    return fmt::format("no size tried for batch_size {} fits; this one needs the least memory", batch);
  }
  if (planned.settings.micro_batch() == batch) return fmt::format("the whole batch_size {} fits", batch);
  return fmt::format("the fastest that fits of {} sizes tried for batch_size {}{}", evaluated, batch,
                     planned.settings.last_micro_batch > 0
                         ? fmt::format("; the last micro batch of a step has {}", planned.settings.last_micro_batch)
                         : "");
}

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
