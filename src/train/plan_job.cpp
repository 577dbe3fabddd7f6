#include "plimsoll/plan_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes_up.h"
#include "base/clock.h"
#include "base/measurement.h"
#include "device/cpu_workspace.h"
#include "job/vocabulary.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "run/plan_options.h"
#include "train/format_choices.h"
#include "train/job_data.h"
#include "train/micro_batch_search.h"
#include "train/slow_matmul.h"
#include "train/stale_op_times.h"
#include "train/strategies.h"

namespace plimsoll {
namespace {

// Returns the job with the target's number of ranks.
Job job_of_ranks(Job job, const PlanTarget& target) {
  job.devices = target.devices.value_or(job.devices);
  return job;
}

class JobPlanner {
 public:
  JobPlanner(const Job& job, const PlanTarget& target, std::function<void()> on_schedule = {},
             const std::function<void(int64_t)>& on_fit = {})
      : job_(job), target_(target), on_schedule_(std::move(on_schedule)) {
    if (on_fit)
      on_fit_ = [on_fit, told = false](int64_t bytes) mutable {
        if (!std::exchange(told, true)) on_fit(bytes);
      };
    check(job.batch_size && *job.batch_size >= 1, "Job::batch_size is filled in before the job is planned");
    check(job.micro_batch_size.has_value() == job.gradient_accumulation_steps.has_value(),
          "a job's micro batch and its accumulation are both set or both open");
    decide_evaluation(job_.data);
    if (is_language_model(job)) rows_of_embedding(job_) = vocabulary_of(job);
    for (const FormatChoice& choice : format_choices(job_)) {
      Formats& formats = formats_.emplace_back();
      formats.words = describe_formats(job_, choice);
      const Job chosen = with_formats(job_, choice);
      if (job_.precision)
        formats.alternatives.push_back(alternative(chosen, *job_.precision));
      else
        for (Precision each : target.bfloat16
                                  ? std::vector{Precision::fp32_true, Precision::bf16_mixed, Precision::bf16_true}
                                  : std::vector{Precision::fp32_true, Precision::fp16_mixed})
          formats.alternatives.push_back(alternative(chosen, each));
    }
  }
  // Other parts keep references to members.
  JobPlanner(const JobPlanner&) = delete;
  JobPlanner& operator=(const JobPlanner&) = delete;

  PlannedJob run() {
    const double start = seconds_now();
    PlannedJob planned = choose(target_.budget.device);
    if (is_language_model(job_)) planned.settings.vocab_size = rows_of_embedding(job_);
    planned.settings.cost = target_.cost;
    planned.settings.devices = job_.devices;
    if (job_.devices > 1) planned.settings.strategy = job_.strategy;
    planned.settings.whole_part = job_.whole_part;
    planned.settings.link = target_.link;
    if (!target_.budget_reason.empty())
      planned.settings.reasons.push_back(
          {target_.budget.device ? "memory_budget: " + format_bytes(*target_.budget.device) : "memory_budget: none",
           target_.budget_reason});
    if (!target_.budget_note.empty()) planned.settings.reasons.push_back({"memory_budget", target_.budget_note});
    if (!target_.not_modeled.empty()) planned.settings.reasons.push_back({"not counted", target_.not_modeled});
    note_estimates(planned);
    planned.plan.reasons.insert(planned.plan.reasons.end(), planned.settings.reasons.begin(),
                                planned.settings.reasons.end());
    planned.plan_seconds = seconds_now() - start;
    return planned;
  }

  std::vector<FrontierPoint> frontier(int points) {
    check(points >= 2, "a frontier has two points at least");
    const PlannedJob smallest = choose(1), largest = choose(std::nullopt);
    const int64_t least = smallest.plan.minimum_budget_bytes, most = std::max(least, largest.plan.peak_bytes);
    std::vector<FrontierPoint> frontier;
    bool lossy_before = false;  // 16-bit parameters, which `auto` uses only if nothing else fits
    for (int i = 0; i < points; ++i) {
      const int64_t budget = least + static_cast<int64_t>(static_cast<double>(most - least) * i / (points - 1));
      const PlannedJob planned = choose(budget);
      FrontierPoint point{budget, planned.plan.peak_bytes, planned.step_seconds, choices_of(planned),
                          planned.plan.fits};
      const bool lossy = !job_.precision && planned.settings.precision == Precision::bf16_true;
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
  // The job with its formats of state, weight updates and accumulators: in one precision or, if that is open, in
  // 32-true, mixed and bf16-true.
  struct Formats {
    std::string words;  // the formats that were open, as text
    std::vector<MicroBatchSearch> alternatives;
  };

  MicroBatchSearch alternative(Job job, Precision precision) const {
    job.precision = precision;
    return {std::move(job), target_, on_schedule_, on_fit_};
  }

  void note_estimates(PlannedJob& planned) const {
    if (target_.device != "cpu") return;
    const EstimatedScratch estimated =
        estimated_scratch(planned.plan.trace, threads_of(options_of(job_)), target_.measuring.get());
    if (estimated.matmuls == 0) return;
    const bool one = estimated.matmuls == 1;
    const std::string which = fmt::format("scratch of {} matmul{} is an estimate ({} planned): ", estimated.matmuls,
                                          one ? "" : "s", format_bytes(estimated.bytes));
    const std::string why =
        target_.measuring
            ? fmt::format(
                  "planning measures matmuls of at most {}, and for at most {:g} s; train measures {} before "
                  "its first step",
                  format_bytes(target_.measuring->limits().bytes), target_.measuring->limits().seconds,
                  one ? "it" : "them")
            : "the machine does not have the memory to measure more now";
    planned.settings.reasons.push_back({"not measured", which + why});
  }

  std::string choices_of(const PlannedJob& planned) const {
    std::string text = job_.precision ? "" : fmt::format("{}, ", name_of(planned.settings.precision));
    const std::string formats = describe_formats(job_, choice_of(planned.settings));
    if (!formats.empty()) text += formats + ", ";
    text += "micro batch " + describe_micro_batches(planned.settings);
    if (planned.plan.checkpointed)
      text += fmt::format(", {:.1f} % recomputed", 100 * planned.plan.time.recompute_share());
    if (planned.plan.update_in_backward) text += ", updates in backward";
    if (planned.plan.host_bytes > 0) text += fmt::format(", {} in host memory", format_bytes(planned.plan.host_bytes));
    if (planned.plan.disk_bytes > 0) text += fmt::format(", {} on disk", format_bytes(planned.plan.disk_bytes));
    return text;
  }

  static FormatChoice choice_of(const ResolvedSettings& settings) {
    return {settings.state_dtype, settings.weight_update, settings.accumulator_dtype};
  }

  // Chooses everything that is open: the most exact formats with which a plan fits.
  PlannedJob choose(std::optional<int64_t> budget) {
    PlannedJob best = choose(formats_[0], budget);
    if (formats_.size() == 1) return best;
    const int64_t first_minimum = best.plan.minimum_budget_bytes;
    int64_t least = first_minimum;
    for (size_t i = 1; i < formats_.size() && !best.plan.fits; ++i) {
      PlannedJob next = choose(formats_[i], budget);
      least = std::min(least, next.plan.minimum_budget_bytes);
      if (next.plan.fits || next.plan.minimum_budget_bytes < best.plan.minimum_budget_bytes) best = std::move(next);
    }
    // The minimum budget is that of the formats with the fewest bytes, even if they are not used.
    if (best.plan.fits && target_.minimize_step_time)
      least = std::min(least, choose(formats_.back(), 1).plan.minimum_budget_bytes);
    const std::string words = describe_formats(job_, choice_of(best.settings));
    std::string why = "the most exact formats fit";
    if (!best.plan.fits)
      why = "no formats fit; these need the least memory";
    else if (words != formats_[0].words)
      why = fmt::format("the most exact formats that fit; {} needs at least {}", formats_[0].words,
                        format_bytes_up(first_minimum));
    best.plan.minimum_budget_bytes = least;
    best.settings.reasons.push_back({words, why});
    return best;
  }

  // Chooses for these formats, precision included.
  PlannedJob choose(Formats& formats, std::optional<int64_t> budget) {
    std::vector<MicroBatchSearch>& alternatives = formats.alternatives;
    if (alternatives.size() == 1) return alternatives[0].choose(budget);
    PlannedJob full = alternatives[0].choose(budget), mixed = alternatives[1].choose(budget);
    int64_t least = std::min(full.plan.minimum_budget_bytes, mixed.plan.minimum_budget_bytes);
    const bool third = alternatives.size() > 2;
    if (third) least = std::min(least, alternatives[2].minimum_budget());
    PlannedJob best;
    std::string why;
    if (full.plan.fits || mixed.plan.fits) {
      const bool faster = mixed.plan.fits && (!full.plan.fits || mixed.step_seconds < full.step_seconds);
      why = faster ? compared(mixed, full) : compared(full, mixed);
      best = std::move(faster ? mixed : full);
    } else {
      if (third)
        best = alternatives[2].choose(budget);
      else
        best = full;
      least = std::min(least, best.plan.minimum_budget_bytes);
      if (best.plan.fits) {
        why = fmt::format(
            "neither {} nor {} fits: they need at least {} and {}; bf16-true changes the result: parameters and "
            "gradients have 8 significant bits",
            name_of(full.settings.precision), name_of(mixed.settings.precision),
            format_bytes(full.plan.minimum_budget_bytes), format_bytes(mixed.plan.minimum_budget_bytes));
      } else {
        why = third ? "no precision fits; this one needs the least memory"
                    : "neither precision fits, and the device has no bfloat16; this one needs the least memory";
        for (PlannedJob* other : {&full, &mixed})
          if (other->plan.minimum_budget_bytes < best.plan.minimum_budget_bytes) best = std::move(*other);
      }
    }
    best.plan.minimum_budget_bytes = least;
    best.settings.reasons.push_back({fmt::format("precision: {}", name_of(best.settings.precision)), why});
    return best;
  }

  static std::string compared(const PlannedJob& best, const PlannedJob& other) {
    const std::string_view name = name_of(other.settings.precision);
    if (!other.plan.fits)
      return fmt::format("{} does not fit: it needs at least {}", name,
                         format_bytes_up(other.plan.minimum_budget_bytes));
    const double ratio = other.step_seconds / best.step_seconds;
    return fmt::format("predicted {:.{}f} times as fast as {}", ratio, ratio < 1.1 ? 2 : 1, name);
  }

  Job job_;  // with the vocabulary filled in
  PlanTarget target_;
  std::function<void()> on_schedule_;
  std::function<void(int64_t)> on_fit_;
  std::vector<Formats> formats_;  // by exactness, the most exact first
};

}  // namespace

PlannedJob plan_job(const Job& given, const PlanTarget& target, const std::function<void()>& on_schedule,
                    const std::function<void(int64_t)>& on_fit) {
  const Job job = job_of_ranks(given, target);
  PlannedJob planned =
      plan_strategies(job, target, [&](const Job& one) { return JobPlanner(one, target, on_schedule, on_fit).run(); });
  if (!retime_stale_ops(planned, job, target, on_schedule)) note_slow_matmul(planned, job, target, on_schedule);
  return planned;
}

PlannedJob plan_job(const Job& job) {
  return plan_job(job, target_of(job));
}

std::vector<FrontierPoint> frontier_of(const Job& job, const PlanTarget& target, int points) {
  return JobPlanner(job_of_ranks(job, target), target).frontier(points);
}

}  // namespace plimsoll
