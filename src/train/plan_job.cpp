#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>
#include <utility>

#include "base/bytes_up.h"
#include "base/measure_allowance.h"
#include "device/allocation_frame.h"
#include "device/backend.h"
#include "device/cpu_workspace.h"
#include "job/vocabulary.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "plimsoll/plan_job.h"
#include "run/measured_workspace.h"
#include "run/plan_options.h"
#include "train/format_choices.h"
#include "train/job_data.h"
#include "train/micro_batches.h"
#include "train/slow_matmul.h"
#include "train/stale_op_times.h"
#include "train/strategies.h"

namespace plimsoll {
namespace {

int64_t numbers_learned(const Trace& trace) {
  // Frozen parameters do not count: trainable parameters are those that the update writes to.
  std::vector<bool> updated(trace.buffers.size(), false);
  for (const Op& op : trace.ops)
    if (op.phase == Phase::update)
      for_each_view(op, [&](const View& view, bool written) {
        if (written) updated[view.buffer] = true;
      });
  int64_t count = 0;
  for (const NamedView& entry : trace.state)
    if (trace.buffers[entry.view.buffer].role == Role::parameter && updated[entry.view.buffer])
      count += entry.view.elements();
  return count;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Ratio of minimum budget and budget above which a large step is not planned again only to report its need.
constexpr double kByFar = 1.05;

// Seconds that are reserved for matmuls when ops run for their scratch, because the scratch of matmuls may be larger.
constexpr double kSecondsForMatmuls = 0.5;
// Shorter ops do not show how much slower the machine is than expected, because allocating their memory takes longer.
constexpr double kSecondsThatTell = 1e-3;
// The largest part of the remaining time that one op may take.
constexpr double kPartForOneOp = 0.5;

std::string describe_limits(const MeasureLimits& limits) {
  return fmt::format("planning measures for at most {:g} s and {}", limits.seconds, format_bytes(limits.bytes));
}

std::string not_run(int64_t ops, const MeasureLimits& limits) {
  if (ops == 1)
    return fmt::format(
        "1 op was not run: its scratch is the amount of its rule, or 0 if it has none; {}; train runs it before its "
        "first step",
        describe_limits(limits));
  return fmt::format(
      "{} ops were not run: their scratch is the amount of their rule, or 0 if they have none; {}; train runs them "
      "before its first step",
      ops, describe_limits(limits));
}

// A job with one micro batch size: recorded once, planned under any budget.
class Candidate {
 public:
  Candidate(const Job& job, const PlanTarget& target, int64_t micro_batch_size,
            const AccumulationSchedule& accumulation, const std::function<void()>& on_schedule) {
    if (on_schedule) on_schedule();  // recording may take long too
    Job resolved = job;
    resolved.micro_batch_size = micro_batch_size;
    resolved.gradient_accumulation_steps = accumulation;
    settings_.precision = job.precision.value();
    settings_.state_dtype = job.optimizer.state_dtype;
    settings_.weight_update = job.optimizer.weight_update;
    settings_.accumulator_dtype = job.accumulator_dtype;
    settings_.micro_batch_size = micro_batch_size;
    settings_.accumulation = accumulation;
    settings_.devices = job.devices;
    settings_.last_micro_batch = last_micro_batch_of(resolved);
    TrainingOptions options = options_of(resolved);
    options.device = target.device;
    options.cost = target.cost;
    options.ranks.rank = target.rank;
    options.exchange = target.exchange;
    const Step step = step_of(resolved, micro_batch_size);
    settings_.prefetched_batch_bytes = prefetched_batch_bytes(resolved.data, step.inputs);
    options.budget = target.budget;
    options.budget.host = minus_prefetched_batches(target.budget.host, resolved.data, step.inputs);
    settings_.budget = options.budget;
    // Must come before the first use of libtorch's list of devices.
    backend_ = target.is_local ? find_backend(target.device) : nullptr;
    const auto start = std::chrono::steady_clock::now();
    recorded_ = record_step(step, options);
    record_seconds_ = seconds_since(start);
    settings_.parameters = numbers_learned(recorded_);
    plan_options_ = plan_options_of(options, backend_, target.measuring);
    measuring_ = target.measuring;
    plan_options_.on_schedule = on_schedule;
    plan_options_.minimize_step_time = target.minimize_step_time;
    threads_ = threads_of(options);
    to_be_probed_ = backend_ != nullptr;
    planner_.emplace(recorded_, plan_options_);
    units_of_sample_ = units_of_sample(job);
  }

  /// Plans the job. Scratch that only a run shows is not measured for a job that does not fit without it: running a
  /// kernel of each kind is most of the planning time. `exact`: it is measured anyway. `on_fit` is called with the
  /// bytes of a plan that fits before the fastest one is searched.
  PlannedJob plan(std::optional<int64_t> budget, bool exact, const std::function<void(int64_t)>& on_fit) {
    PlannedJob planned;
    const auto fits = [&] { return !budget || planner_->minimum_budget() <= *budget; };
    if (exact || (to_be_probed_ && fits())) probe();
    if (on_fit && budget && !to_be_probed_ && fits()) on_fit(planner_->minimum_budget());
    planned.plan = answer_to(budget);
    planned.recorded = recorded_;
    planned.workspace = workspace_;
    planned.plan_options = plan_options_;
    planned.plan_options.budget.device = budget;
    planned.plan_options.on_schedule = nullptr;
    planned.record_seconds = record_seconds_;
    planned.settings = settings_;
    const int64_t count = settings_.accumulation.begin()->second;
    planned.step_seconds = planned.plan.time.step(count, settings_.last_micro_batch > 0);
    planned.tokens_per_second =
        static_cast<double>(settings_.sequences(count) * units_of_sample_) / planned.step_seconds;
    return planned;
  }

  /// Returns true if probably no plan under the budget takes less than `seconds` per step, and if this is known without
  /// a plan. If scratch was not measured yet, only plan() knows whether the job fits.
  bool takes_longer_than(double seconds, std::optional<int64_t> budget) const {
    return budget && !to_be_probed_ && planner_->step_seconds_lower_bound(*budget) >= seconds;
  }
  int64_t minimum_budget() const { return planner_->minimum_budget(); }

  /// Returns true if a plan takes a few tenths of a second or more.
  bool large() const { return recorded_.ops.size() > plan_options_.solver.large_trace_ops; }

 private:
  // Measures scratch as plan_step() does, so that a plan alone reports the needs of a run. Large ops are left to the
  // run.
  void probe() {
    if (!to_be_probed_) return;
    to_be_probed_ = false;
    const auto workspace = std::make_shared<MeasuredWorkspace>(plan_options_.workspace);
    at::set_num_threads(threads_);
    MeasuredWorkspace::RunOp run;
    double expected = 0, charged = 0;  // seconds of the ops that ran
    if (measuring_)
      run = [&](const Op& op, int64_t bytes, const std::function<void()>& run_op) {
        const double seconds = seconds_of(plan_options_.cost, op), slower = charged > expected ? charged / expected : 1;
        const double most = (measuring_->seconds_left() - kSecondsForMatmuls) * kPartForOneOp;
        if (most <= 0 || !measuring_->allows(bytes, 0) || seconds * slower > most) return false;
        const MeasureAllowance::Charge charge(measuring_.get());
        const ScratchLimit scratch(measuring_->limits().bytes - bytes);
        const auto count = [&] {
          if (seconds >= kSecondsThatTell) {
            expected += seconds;
            charged += charge.seconds();
          }
          return !scratch.exceeded();
        };
        try {
          run_op();
        } catch (const UserError&) {
          if (!count()) return false;
          throw;
        }
        return count();
      };
    const MeasuredWorkspace::Probed probed = workspace->probe(recorded_, kProbedBytes, *backend_, run);
    workspace_ = workspace;
    if (measuring_ && probed.refused > 0)
      settings_.reasons.push_back({"not measured", not_run(probed.refused, measuring_->limits())});
    if (!probed.found_more) return;  // earlier searches remain valid
    plan_options_ = with_measured(std::move(plan_options_), *workspace);
    planner_.emplace(recorded_, plan_options_);
    misfit_.reset();
  }

  // Returns the plan, and stores one that does not fit, because it is requested twice: to see whether it fits, and for
  // its need.
  Plan answer_to(std::optional<int64_t> budget) {
    if (misfit_ && misfit_->budget.device == budget) return *misfit_;
    Plan plan = planner_->plan(budget);
    if (!plan.fits) misfit_ = plan;
    return plan;
  }

  ResolvedSettings settings_;
  int64_t units_of_sample_ = 0;
  PlanOptions plan_options_;
  int threads_ = 0;
  Backend* backend_ = nullptr;  // backend of the target, if it is on this machine
  bool to_be_probed_ = false;
  std::shared_ptr<MeasureAllowance> measuring_;  // nullptr: no limit
  Trace recorded_;
  double record_seconds_ = 0;
  std::shared_ptr<const MeasuredWorkspace> workspace_;
  std::optional<Planner> planner_;
  std::optional<Plan> misfit_;  // the last plan, if it did not fit
};

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

  PlannedJob run() {
    const auto start = std::chrono::steady_clock::now();
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
    if (!target_.not_modeled.empty()) planned.settings.reasons.push_back({"not counted", target_.not_modeled});
    note_estimates(planned);
    planned.plan.reasons.insert(planned.plan.reasons.end(), planned.settings.reasons.begin(),
                                planned.settings.reasons.end());
    planned.plan_seconds = seconds_since(start);
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
  struct Open {
    int64_t micro_batch_size;
    AccumulationSchedule accumulation;
    std::unique_ptr<Candidate> candidate;  // recorded when it is first requested
  };

  // The job in one precision.
  struct Alternative {
    Job job;
    std::vector<Open> open;  // by increasing micro batch

    Candidate& candidate(size_t index, const PlanTarget& target, const std::function<void()>& on_schedule) {
      Open& asked = open[index];
      if (!asked.candidate)
        asked.candidate =
            std::make_unique<Candidate>(job, target, asked.micro_batch_size, asked.accumulation, on_schedule);
      return *asked.candidate;
    }
  };

  // The job with its formats of state, weight updates and accumulators: in one precision or, if that is open, in
  // 32-true, mixed and bf16-true.
  struct Formats {
    std::string words;  // the formats that were open, as text
    std::vector<Alternative> alternatives;
  };

  Alternative alternative(Job job, Precision precision) const {
    Alternative added;
    added.job = std::move(job);
    added.job.precision = precision;
    if (job_.micro_batch_size) {
      added.open.push_back({*job_.micro_batch_size, *job_.gradient_accumulation_steps, nullptr});
      return added;
    }
    // With several devices, all micro batches have the same size. Updates in backward that wait for the norm of all
    // gradients need a single micro batch.
    const bool single =
        job_.update_in_backward == Choice::on && (job_.max_grad_norm > 0 || precision == Precision::fp16_mixed);
    for (int64_t size : candidate_micro_batches(*job_.batch_size))
      if ((!single || size == *job_.batch_size) && (job_.devices == 1 || *job_.batch_size % size == 0))
        added.open.push_back({size, {{0, (*job_.batch_size + size - 1) / size}}, nullptr});
    return added;
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
    std::vector<Alternative>& alternatives = formats.alternatives;
    if (alternatives.size() == 1) return choose(alternatives[0], budget);
    PlannedJob full = choose(alternatives[0], budget), mixed = choose(alternatives[1], budget);
    int64_t least = std::min(full.plan.minimum_budget_bytes, mixed.plan.minimum_budget_bytes);
    const bool third = alternatives.size() > 2;
    if (third)  // either the smallest micro batch has the smallest need, or the largest, which need not accumulate
      for (size_t i : {size_t{0}, alternatives[2].open.size() - 1})
        least = std::min(
            least, alternatives[2].candidate(i, target_, on_schedule_).plan(1, true, {}).plan.minimum_budget_bytes);
    PlannedJob best;
    std::string why;
    if (full.plan.fits || mixed.plan.fits) {
      const bool faster = mixed.plan.fits && (!full.plan.fits || mixed.step_seconds < full.step_seconds);
      why = faster ? compared(mixed, full) : compared(full, mixed);
      best = std::move(faster ? mixed : full);
    } else {
      if (third)
        best = choose(alternatives[2], budget);
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

  // Chooses the micro batch with the least time among those that fit. Larger ones use a device better, and need more
  // memory. The search starts at the largest that fits, and goes down to one that fits without recomputation; smaller
  // ones cannot be faster.
  PlannedJob choose(Alternative& alternative, std::optional<int64_t> budget) const {
    enum class Fit : uint8_t { unknown, no, with_extra_time, whole };
    std::vector<Fit> fits(alternative.open.size(), Fit::unknown);
    std::optional<PlannedJob> best;
    int64_t minimum = std::numeric_limits<int64_t>::max();
    size_t evaluated = 0;
    std::vector<bool> counted(fits.size(), false);  // true: included in the minimum
    const auto evaluate = [&](size_t i, bool exact) {
      Candidate& candidate = alternative.candidate(i, target_, on_schedule_);
      evaluated += fits[i] == Fit::unknown;
      // It fits, and is not the fastest: searching its own fastest plan is useless.
      if (!exact && target_.minimize_step_time && best && best->plan.fits &&
          candidate.takes_longer_than(best->step_seconds, budget)) {
        minimum = std::min(minimum, candidate.minimum_budget());
        counted[i] = true;
        fits[i] = Fit::with_extra_time;
        return;
      }
      PlannedJob planned = candidate.plan(budget, exact, on_fit_);
      if (planned.plan.fits || exact) {
        minimum = std::min(minimum, planned.plan.minimum_budget_bytes);
        counted[i] = true;
      }
      const Plan& plan = planned.plan;
      const bool extra = plan.checkpointed || plan.host_bytes + plan.disk_bytes > 0 || plan.time.norms > 0;
      fits[i] = !plan.fits ? Fit::no : extra ? Fit::with_extra_time : Fit::whole;
      const bool better =
          !best || (planned.plan.fits != best->plan.fits ? planned.plan.fits
                    : planned.plan.fits                  ? planned.step_seconds < best->step_seconds
                                        : planned.plan.minimum_budget_bytes < best->plan.minimum_budget_bytes);
      if (better) best = std::move(planned);
    };
    const auto fit_of = [&](size_t i) {
      if (fits[i] == Fit::unknown) evaluate(i, false);
      return fits[i];
    };
    size_t end = fits.size();  // sizes from here on do not fit
    // Either the smallest has the smallest need, or the largest, which need not accumulate. If both need far more than
    // the budget, none between them fits.
    const auto misfits_by_far = [&](size_t i) {
      return fit_of(i) == Fit::no && alternative.candidate(i, target_, on_schedule_).large() &&
             static_cast<double>(best->plan.minimum_budget_bytes) > kByFar * static_cast<double>(*budget);
    };
    const bool none = budget && misfits_by_far(end - 1) && misfits_by_far(0);
    if (none) {
      end = 0;
      if (target_.minimize_step_time)
        for (const size_t i : {size_t{0}, fits.size() - 1})
          if (!counted[i]) evaluate(i, true);
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
      if (end == 0 && target_.minimize_step_time) {
        best.reset();
        for (size_t i = fits.size(); i-- > 0;) evaluate(i, true);
      }
    }
    // Search and placement are not exact, and scratch depends on the shape. A size that does not fit may be smaller
    // than one that does.
    for (size_t i = end; !none && i < std::min(end + 3, fits.size()); ++i) fit_of(i);
    if (!target_.minimize_step_time && best->plan.fits) end = 0;
    while (end > 0 && fit_of(end - 1) != Fit::whole) --end;
    // Either the smallest has the smallest need, or the largest, which need not accumulate. A budget that is too small
    // is planned fastest.
    if (target_.minimize_step_time)
      for (const size_t i : {size_t{0}, fits.size() - 1})
        if (!counted[i])
          minimum = std::min(
              minimum, alternative.candidate(i, target_, on_schedule_).plan(1, true, {}).plan.minimum_budget_bytes);
    best->plan.minimum_budget_bytes = target_.minimize_step_time ? minimum : best->plan.minimum_budget_bytes;
    if (!job_.micro_batch_size)
      best->settings.reasons.push_back({fmt::format("micro_batch_size: {}", best->settings.micro_batch_size),
                                        micro_batch_reason(*best, evaluated, alternative.open.size())});
    return std::move(*best);
  }

  std::string micro_batch_reason(const PlannedJob& planned, size_t evaluated, size_t open) const {
    const int64_t batch = *job_.batch_size;
    if (!planned.plan.fits) {
      if (open == 1) return fmt::format("the whole batch_size, {}, does not fit", batch);
      return fmt::format("no size tried for batch_size {} fits; this one needs the least memory", batch);
    }
    if (planned.settings.micro_batch_size == batch) return fmt::format("the whole batch_size {} fits", batch);
    return fmt::format("the fastest that fits of {} sizes tried for batch_size {}{}", evaluated, batch,
                       planned.settings.last_micro_batch > 0
                           ? fmt::format("; the last micro batch of a step has {}", planned.settings.last_micro_batch)
                           : "");
  }

  Job job_;  // with the vocabulary filled in
  PlanTarget target_;
  std::function<void()> on_schedule_;
  std::function<void(int64_t)> on_fit_;
  std::vector<Formats> formats_;  // by exactness, the most exact first
};

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
