#include "plimsoll/plan_training.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/measurement.h"
#include "base/text.h"
#include "device/kernel_scratch.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/machine.h"
#include "plimsoll/training.h"
#include "run/search/open_choices.h"
#include "run/search/process_budget.h"
#include "run/search/step_candidate.h"
#include "run/training_parts.h"

namespace plimsoll {
namespace {

std::vector<Precision> precisions_of(const TrainingOptions& options, const PlanTarget& target) {
  if (options.precision != Precision::automatic) return {options.precision};
  if (!target.cost.bfloat16) return {Precision::fp32_true, Precision::fp16_mixed};
  return {Precision::fp32_true, Precision::bf16_mixed, Precision::bf16_true};
}

std::string compared(const Found& best, const Found& other) {
  const std::string_view name = name_of(other.planned.settings.precision);
  if (!other.fits())
    return fmt::format("{} does not fit: it needs at least {}", name, format_bytes_up(other.minimum_budget));
  const double ratio = other.planned.step_seconds / best.planned.step_seconds;
  return fmt::format("predicted {:.{}f} times as fast as {}", ratio, ratio < 1.1 ? 2 : 1, name);
}

// The search over formats, precision and micro batch, for one strategy. Each combination is recorded once, and planned
// under any budget.
class ChoiceSearch {
 public:
  ChoiceSearch(const StepOfSize& step, const TrainingOptions& options, const PlanTarget& target,
               const SearchOptions& search)
      : options_(options), minimize_step_time_(search.minimize_step_time) {
    for (TrainingOptions& chosen : format_choices(options)) {
      Formats& formats = formats_.emplace_back();
      formats.words = describe_formats(options, chosen);
      for (const Precision precision : precisions_of(options, target)) {
        chosen.precision = precision;
        formats.precisions.emplace_back(step, chosen, target, search);
      }
    }
  }

  // Chooses everything that is open: the most exact formats with which a plan fits.
  Found choose(std::optional<int64_t> budget) {
    Found best = choose_precision(formats_[0], budget);
    if (formats_.size() == 1) return best;
    const int64_t first_minimum = best.minimum_budget;
    for (size_t i = 1; i < formats_.size() && !best.fits(); ++i) best.add(choose_precision(formats_[i], budget));
    // The minimum budget is that of the formats with the fewest bytes, even if they are not used.
    if (best.fits() && minimize_step_time_) best.add(choose_precision(formats_.back(), 1));
    const std::string words = describe_formats(options_, best.planned.settings);
    std::string why = "the most exact formats fit";
    if (!best.fits())
      why = "no formats fit; these need the least memory";
    else if (words != formats_[0].words)
      why = fmt::format("the most exact formats that fit; {} needs at least {}", formats_[0].words,
                        format_bytes_up(first_minimum));
    best.planned.settings.reasons.push_back({words, why});
    return best;
  }

  // Returns the plan with the fewest bytes whose step is predicted to take at most `slowdown` longer than that of
  // `best`, which fits; with the same precision, micro batch and formats. Predicted times fall with the budget, so a
  // bisection finds it.
  Found leanest(Found best, double slowdown) {
    const double fastest = best.planned.step_seconds, accepted = fastest * (1 + slowdown);
    const int64_t whole = best.planned.plan.peak_bytes;
    const Precision precision = best.planned.settings.precision;
    const int64_t micro_batch = best.planned.settings.micro_batch();  // batch norms depend on it
    const std::string words = describe_formats(options_, best.planned.settings);
    const bool large = best.planned.recorded.ops.size() > best.planned.plan_options.solver.large_trace_ops;
    int64_t low = best.minimum_budget, high = whole;
    for (int i = large ? 2 : 0; i < kBisections && low < high - whole / kLeastGain; ++i) {
      const int64_t middle = low + (high - low) / 2;
      Found leaner = choose(middle);
      const ResolvedSettings& settings = leaner.planned.settings;
      if (leaner.fits() && leaner.planned.step_seconds <= accepted && settings.precision == precision &&
          settings.micro_batch() == micro_batch && describe_formats(options_, settings) == words) {
        high = leaner.planned.plan.peak_bytes;
        const int64_t minimum = std::min(best.minimum_budget, leaner.minimum_budget);
        best = std::move(leaner);
        best.minimum_budget = minimum;
      } else {
        low = middle;
      }
    }
    if (best.planned.plan.peak_bytes < whole) note_saved(best.planned, whole, fastest);
    return best;
  }

  std::vector<FrontierPoint> frontier(int points) {
    check(points >= 2, "a frontier has two points at least");
    const int64_t least = choose(1).minimum_budget,
                  most = std::max(least, choose(std::nullopt).planned.plan.peak_bytes);
    std::vector<FrontierPoint> frontier;
    bool lossy_before = false;  // 16-bit parameters, which an open precision uses only if nothing else fits
    for (int i = 0; i < points; ++i) {
      const int64_t budget = least + static_cast<int64_t>(static_cast<double>(most - least) * i / (points - 1));
      const PlannedTraining planned = choose(budget).planned;
      FrontierPoint point{budget, planned.plan.peak_bytes, planned.step_seconds, choices_of(planned),
                          planned.plan.fits};
      const bool lossy =
          options_.precision == Precision::automatic && planned.settings.precision == Precision::bf16_true;
      // A plan for a smaller budget fits this one too; but more exact formats may take more time.
      if (formats_.size() == 1 && lossy == lossy_before && !frontier.empty() && frontier.back().fits &&
          frontier.back().step_seconds < point.step_seconds) {
        point = frontier.back();
        point.budget_bytes = budget;
      }
      lossy_before = lossy;
      frontier.push_back(std::move(point));
    }
    return frontier;
  }

 private:
  static constexpr int kBisections = 6;      // two fewer for a large trace, where each takes a second
  static constexpr int64_t kLeastGain = 64;  // a part of the fastest plan's bytes that is worth another search

  // The budget of the plan is that of the bisection, which its reasons need not name.
  static void note_saved(PlannedTraining& planned, int64_t whole, double fastest) {
    for (Reason& reason : planned.plan.reasons)
      if (const size_t budget = reason.why.find("; the budget is "); budget != std::string::npos)
        reason.why.resize(budget);
    planned.settings.reasons.push_back(
        {fmt::format("memory_budget: none is stated, and {} are enough", format_bytes_up(planned.plan.peak_bytes)),
         fmt::format("the fastest step takes {}; this one is predicted to be {:.1f} % longer", format_bytes_up(whole),
                     100 * (planned.step_seconds / fastest - 1))});
  }

  // Formats of state, weight updates and accumulators, in each precision.
  struct Formats {
    std::string words;  // the formats that were open, as text
    std::vector<MicroBatchSearch> precisions;
  };

  std::string choices_of(const PlannedTraining& planned) const {
    std::string text;
    if (options_.precision == Precision::automatic) text = fmt::format("{}, ", name_of(planned.settings.precision));
    if (const std::string formats = describe_formats(options_, planned.settings); !formats.empty())
      text += formats + ", ";
    text += "micro batch " + describe_micro_batches(planned.settings);
    if (planned.plan.checkpointed)
      text += fmt::format(", {:.1f} % recomputed", 100 * planned.plan.time.recompute_share());
    if (planned.plan.update_in_backward) text += ", updates in backward";
    if (planned.plan.host_bytes > 0) text += fmt::format(", {} in host memory", format_bytes(planned.plan.host_bytes));
    if (planned.plan.disk_bytes > 0) text += fmt::format(", {} on disk", format_bytes(planned.plan.disk_bytes));
    return text;
  }

  static Found choose_precision(Formats& formats, std::optional<int64_t> budget) {
    std::vector<MicroBatchSearch>& precisions = formats.precisions;
    Found best = precisions[0].choose(budget);
    if (precisions.size() == 1) return best;
    precisions[0].make_room();
    Found mixed = precisions[1].choose(budget);
    precisions[1].make_room();
    const bool third = precisions.size() > 2;
    const int64_t third_minimum = third ? precisions[2].minimum_budget() : mixed.minimum_budget;
    precisions.back().make_room();
    std::string why;
    if (best.fits() || mixed.fits()) {
      why = mixed.is_better_than(best) ? compared(mixed, best) : compared(best, mixed);
    } else {
      why = fmt::format(
          "neither {} nor {} fits: they need at least {} and {}; bf16-true changes the result: parameters and "
          "gradients have 8 significant bits",
          name_of(best.planned.settings.precision), name_of(mixed.planned.settings.precision),
          format_bytes(best.minimum_budget), format_bytes(mixed.minimum_budget));
      if (third) {
        Found full = std::exchange(best, precisions[2].choose(budget));
        if (!best.fits()) why = "no precision fits; this one needs the least memory";
        best.add(std::move(full));
      } else {
        why = "neither precision fits, and the device has no bfloat16; this one needs the least memory";
      }
    }
    best.add(std::move(mixed));
    best.add(third_minimum);
    best.planned.settings.reasons.push_back(
        {fmt::format("precision: {}", name_of(best.planned.settings.precision)), why});
    return best;
  }

  const TrainingOptions options_;
  const bool minimize_step_time_;
  std::vector<Formats> formats_;  // by exactness, the most exact first
};

void require_batch(const TrainingOptions& options) {
  const auto& counts = options.gradient_accumulation_steps;
  if (options.batch_size.value_or(options.micro_batch_size.value_or(0)) < 1)
    throw UserError("plan_training() needs TrainingOptions::batch_size or micro_batch_size, at least 1");
  if (options.micro_batch_size.value_or(1) < 1) throw UserError("TrainingOptions::micro_batch_size is at least 1");
  if (!counts) return;
  if (!options.micro_batch_size)
    throw UserError(
        "TrainingOptions::gradient_accumulation_steps needs micro_batch_size; leave both empty for the planner");
  if (!counts->contains(0) || std::ranges::any_of(*counts, [](const auto& entry) { return entry.second < 1; }))
    throw UserError("TrainingOptions::gradient_accumulation_steps begins with epoch 0, and each number is at least 1");
  const int64_t whole = *options.micro_batch_size * counts->at(0);
  if (options.batch_size.value_or(whole) != whole && last_micro_batch_of(options) == 0)
    throw UserError(
        fmt::format("TrainingOptions::batch_size is {}, and {} micro batches of {} samples are {}: leave one of the "
                    "three empty",
                    *options.batch_size, counts->at(0), *options.micro_batch_size, whole));
}

// Returns the options with the target's number of ranks.
TrainingOptions of_ranks(TrainingOptions options, const PlanTarget& target) {
  require_batch(options);
  options.ranks.count = target.ranks.count.value_or(options.ranks.count);
  if (!options.batch_size && !options.gradient_accumulation_steps)
    options.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  return with_batch(std::move(options));
}

void add_estimates(const PlannedTraining& planned, const PlanTarget& target, std::vector<Reason>& reasons) {
  if (target.device != "cpu") return;
  const MeasureAllowance* const allowance = target.measuring.get();
  const EstimatedScratch estimated = estimated_scratch(planned.plan.trace, threads_of(planned.settings), allowance);
  if (estimated.matmuls == 0) return;
  const bool one = estimated.matmuls == 1;
  const std::string which = fmt::format("scratch of {} matmul{} is an estimate ({} planned): ", estimated.matmuls,
                                        one ? "" : "s", format_bytes(estimated.bytes));
  const std::string why = allowance ? fmt::format("{}; train measures {} before its first step",
                                                  describe_limits(allowance->limits()), one ? "it" : "them")
                                    : "the machine does not have the memory to measure more now";
  reasons.push_back({"not measured", which + why});
}

// Returns the reasons that follow from the target.
std::vector<Reason> reasons_of(const PlannedTraining& planned, const PlanTarget& target) {
  std::vector<Reason> reasons;
  if (!target.budget_reason.empty())
    reasons.push_back(
        {target.budget.device ? "memory_budget: " + format_bytes(*target.budget.device) : "memory_budget: none",
         target.budget_reason});
  reasons.insert(reasons.end(), target.notes.begin(), target.notes.end());
  add_estimates(planned, target, reasons);
  return reasons;
}

}  // namespace

std::string describe_micro_batches(const ResolvedSettings& settings) {
  const int64_t count = settings.first_accumulation();
  if (settings.last_micro_batch == 0) return fmt::format("{} x {}", settings.micro_batch(), count);
  return fmt::format("{} x {} + {}", settings.micro_batch(), count - 1, settings.last_micro_batch);
}

namespace {

PlannedTraining plan_for(const StepOfSize& step, const TrainingOptions& options, const PlanTarget& target,
                         const SearchOptions& search) {
  const double start = seconds_now();
  if (!(search.accepted_slowdown >= 0 && search.accepted_slowdown <= 1))
    throw UserError(fmt::format("SearchOptions::accepted_slowdown is {}; allowed: 0 to 1", search.accepted_slowdown));
  SearchOptions once = search;
  if (target.budget.process)
    once.on_schedule = [&] {
      require_room_for_planning(target.budget);
      if (search.on_schedule) search.on_schedule();
    };
  if (!target.budget.device)
    once.on_fit = {};  // leanest() plans under budgets that nobody stated
  else if (search.on_fit)
    once.on_fit = [&search, told = false](int64_t bytes) mutable {
      if (!std::exchange(told, true)) search.on_fit(bytes);
    };
  StrategyChoice strategies(of_ranks(options, target), target.budget, search.minimize_step_time);
  while (const std::optional<TrainingOptions> one = strategies.next()) {
    ChoiceSearch choices(step, *one, target, once);
    Found best = choices.choose(target.budget.device);
    if (search.accepted_slowdown > 0 && best.fits()) best = choices.leanest(std::move(best), search.accepted_slowdown);
    const std::vector<Reason> more = reasons_of(best.planned, target);
    best.planned.settings.reasons.insert(best.planned.settings.reasons.end(), more.begin(), more.end());
    strategies.add(std::move(best));
  }
  PlannedTraining planned = std::move(strategies).result().result();
  planned.plan.reasons.insert(planned.plan.reasons.end(), planned.settings.reasons.begin(),
                              planned.settings.reasons.end());
  planned.plan_seconds = seconds_now() - start;
  return planned;
}

}  // namespace

PlannedTraining plan_training(const StepOfSize& step, const TrainingOptions& options, const PlanTarget& target,
                              const SearchOptions& search) {
  return plan_within_process(target,
                             [&](const PlanTarget& bounded) { return plan_for(step, options, bounded, search); });
}

PlannedTraining plan_training(const StepOfSize& step, const TrainingOptions& options) {
  return plan_training(step, options, target_of(options));
}

std::vector<FrontierPoint> frontier_of(const StepOfSize& step, const TrainingOptions& options, const PlanTarget& target,
                                       int points) {
  const SearchOptions search;
  return ChoiceSearch(step, of_ranks(options, target), target, search).frontier(points);
}

PlannedStep plan_step(const Step& step, const TrainingOptions& options) {
  PlanTarget target{.device = options.device, .cost = options.cost, .budget = options.budget};
  target.ranks = {.rank = options.ranks.rank, .exchange = options.exchange};
  if (options.device == "cpu") {
    at::set_num_threads(threads_of(options));
    kernel_choices();  // measured now, not by the first step
  }
  const SearchOptions search;
  TrainingOptions stated = options;
  stated.prefetched_micro_batches = 0;  // plan_training() alone subtracts them
  StepCandidate candidate([&](int64_t) { return step; }, stated, target, search);
  // Scratch without a rule is measured before the step is checked against the budget; for large ops, at the start.
  return candidate.plan(options.budget.device, /*exact=*/true).result();
}

}  // namespace plimsoll
