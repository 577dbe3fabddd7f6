#include "run/search/step_candidate.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/measurement.h"
#include "base/process.h"
#include "device/allocation_frame.h"
#include "device/available_memory.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/machine.h"
#include "plimsoll/training.h"
#include "run/machine_cost.h"
#include "run/op_times.h"
#include "run/search/process_budget.h"
#include "run/training_parts.h"

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

// Seconds that are reserved for matmuls when ops run for their scratch, because the scratch of matmuls may be larger.
constexpr double kSecondsForMatmuls = 0.5;
// Shorter ops do not show how much slower the machine is than expected, because allocating their memory takes longer.
constexpr double kSecondsThatTell = 1e-3;
// The largest part of the remaining time that one op may take.
constexpr double kPartForOneOp = 0.5;

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

int64_t micro_batch_bytes(const std::vector<InputSpec>& inputs) {
  int64_t bytes = 0;
  for (const InputSpec& input : inputs) {
    int64_t numbers = 1;
    for (const int64_t size : input.sizes) numbers *= size;
    bytes += numbers * static_cast<int64_t>(c10::elementSize(input.dtype));
  }
  return bytes;
}

int64_t samples_of(const std::vector<InputSpec>& inputs) {
  return inputs.empty() || inputs.front().sizes.empty() ? 1 : inputs.front().sizes.front();
}

}  // namespace

StepCandidate::StepCandidate(const StepOfSize& step_of_size, const TrainingOptions& options, const PlanTarget& target,
                             const SearchOptions& search)
    : search_(search), measuring_(target.measuring) {
  if (search.on_schedule) search.on_schedule();  // recording may take long too
  static_cast<TrainingOptions&>(settings_) = with_batch(options);
  settings_.device = target.device;
  settings_.cost = target.cost;
  settings_.budget = target.budget;
  settings_.ranks.rank = target.ranks.rank;
  settings_.link = target.ranks.link;
  const Step step = step_of_size(settings_.micro_batch_size.value_or(1));
  // A step of a fixed size comes without its batch.
  if (!settings_.micro_batch_size) settings_.micro_batch_size = samples_of(step.inputs);
  if (!settings_.gradient_accumulation_steps)
    settings_.gradient_accumulation_steps = AccumulationSchedule{{0, settings_.micro_batches}};
  settings_.prefetched_batch_bytes = settings_.prefetched_micro_batches * micro_batch_bytes(step.inputs);
  settings_.prefetched_micro_batches = 0;  // subtracted here
  settings_.budget.host = std::max<int64_t>(0, target.budget.host - settings_.prefetched_batch_bytes);
  // Must come before the first use of libtorch's list of devices.
  backend_ = target.is_local ? find_backend(target.device) : nullptr;
  TrainingOptions connected = settings_;
  connected.exchange = target.ranks.exchange;
  const double start = seconds_now();
  recorded_ = record_step(step, connected);
  record_seconds_ = seconds_now() - start;
  settings_.parameters = recorded_.trained_parameters;
  settings_.model_parameters = recorded_.model_parameters;
  settings_.rank_parameters = numbers_learned(recorded_);
  plan_options_ = plan_options_of(connected, backend_, target.measuring);
  if (!step.replace.loss_rows) plan_options_.row_slicing = nullptr;
  plan_options_.on_schedule = search.on_schedule;
  plan_options_.minimize_step_time = search.minimize_step_time;
  to_be_probed_ = backend_ != nullptr;
}

const Planner& StepCandidate::planner() {
  if (!planner_) planner_.emplace(recorded_, plan_options_);
  return *planner_;
}

Found StepCandidate::plan(std::optional<int64_t> budget, bool exact) {
  PlannedTraining planned;
  const auto fits = [&] { return !budget || planner().minimum_budget() <= *budget; };
  if (exact || (to_be_probed_ && fits())) probe();
  if (search_.on_fit && budget && !to_be_probed_ && fits()) search_.on_fit(planner().minimum_budget());
  planned.plan = misfit_ && misfit_->budget.device == budget ? *misfit_ : planner().plan(budget);
  if (!planned.plan.fits) misfit_ = planned.plan;
  planned.recorded = recorded_;
  planned.workspace = workspace_;
  planned.plan_options = plan_options_;
  planned.plan_options.budget.device = budget;
  planned.plan_options.on_schedule = nullptr;
  planned.record_seconds = record_seconds_;
  planned.settings = settings_;
  const int64_t count = settings_.first_accumulation();
  planned.settings.batch_size = settings_.sequences(count);
  planned.step_seconds = planned.plan.time.step(count, settings_.last_micro_batch > 0);
  planned.samples_per_second = static_cast<double>(settings_.sequences(count)) / planned.step_seconds;
  return {std::move(planned), planner().minimum_budget()};
}

void StepCandidate::probe() {
  if (!to_be_probed_) return;
  to_be_probed_ = false;
  const auto workspace = std::make_shared<MeasuredWorkspace>(plan_options_.workspace);
  at::set_num_threads(threads_of(settings_));
  MeasuredWorkspace::RunOp run;
  double expected = 0, charged = 0;  // seconds of the ops that ran
  if (measuring_)
    run = [&](const Op& op, int64_t bytes, const std::function<void()>& run_op) {
      const double seconds = seconds_of(plan_options_.cost, op), slower = charged > expected ? charged / expected : 1;
      const double most = (measuring_->seconds_left() - kSecondsForMatmuls) * kPartForOneOp;
      if (most <= 0 || !measuring_->allows(bytes, 0) || seconds * slower > most) return false;
      if (room_to_try(settings_.budget, bytes) < bytes) return false;
      const MeasureAllowance::Charge charge(measuring_.get());
      const ScratchLimit scratch(room_to_try(settings_.budget, measuring_->limits().bytes) - bytes);
      const auto count = [&] {
        if (seconds >= kSecondsThatTell) {
          expected += seconds;
          charged += charge.seconds();
        }
        return !scratch.exceeded();
      };
      try {
        measuring_machine().time({op.name, op.flops, static_cast<double>(op.bytes_moved)}, run_op);
      } catch (const UserError&) {
        if (!count()) return false;
        throw;
      }
      return count();
    };
  const Trace& ops = plan_options_.row_slicing ? with_loss_rows(recorded_, *plan_options_.row_slicing) : recorded_;
  const MeasuredWorkspace::Probed probed =
      workspace->probe(ops, room_to_try(settings_.budget, kProbedBytes), *backend_, run);
  workspace_ = workspace;
  if (measuring_ && probed.refused > 0)
    settings_.reasons.push_back({"not measured", not_run(probed.refused, measuring_->limits())});
  if (!probed.found_more) return;  // earlier searches remain valid
  plan_options_ = with_measured(std::move(plan_options_), *workspace);
  planner_.reset();
  misfit_.reset();
}

namespace {

// Seconds for a run; a plan has an allowance.
constexpr double kSecondsToTimeAgain = 10;

}  // namespace

bool prediction_failed(double predicted_seconds, double measured_seconds) {
  return predicted_seconds > 0 && measured_seconds > 0 &&
         (measured_seconds >= 1.5 * predicted_seconds || measured_seconds <= 0.5 * predicted_seconds);
}

std::string invalidate_op_times(const PlannedTraining& planned, int threads, double predicted_seconds,
                                double measured_seconds) {
  if (!planned.settings.cost.measured_seconds || !prediction_failed(predicted_seconds, measured_seconds)) return "";
  const std::filesystem::path file = op_times_file(threads);
  if (file.empty()) return "";
  OpTimes times(threads);
  times.load(file);
  const int count = times.invalidate(planned.plan.trace);
  if (count == 0) return "";
  times.save(file);
  return fmt::format(
      "a step took {:.3g} s; {:.3g} s were predicted from timed operators; the next plan times {} operators again",
      measured_seconds, predicted_seconds, count);
}

std::string shared_cores_cause(double predicted_seconds, double measured_seconds, double load, int cores,
                               int own_threads) {
  if (!prediction_failed(predicted_seconds, measured_seconds) || measured_seconds < predicted_seconds) return "";
  // Half a thread more, for rounding and for threads that are ending.
  if (cores <= 0 || load < std::max(cores, own_threads) + 0.5) return "";
  return fmt::format(
      "other processes probably use the same cores (load average {:.1f} on {} core{}); stop them, or set threads to "
      "the "
      "number of free cores",
      load, cores, cores == 1 ? "" : "s");
}

bool retime_stale_ops(PlannedTraining& planned, const StepOfSize& step, const TrainingOptions& options,
                      const PlanTarget& target, const SearchOptions& search) {
  if (!target.is_local || target.device != "cpu") return false;
  const int threads = threads_of(options);
  const std::filesystem::path file = op_times_file(threads);
  OpTimes times(threads, [&search, timer = machine_op_timer()](const Trace& trace, const Op& op,
                                                               std::span<const int64_t> distances) {
    if (search.on_schedule) search.on_schedule();
    return timer(trace, op, distances);
  });
  times.load(file);
  const int stale = times.invalidated(planned.plan.trace);
  if (stale == 0) return false;
  int64_t bytes = target.budget.device.value_or(current_host_memory().value_or(GiB) / 2);
  double seconds = kSecondsToTimeAgain;
  MeasureAllowance* const allowance = target.measuring.get();
  if (allowance) {
    bytes = std::min(bytes, allowance->limits().bytes);
    seconds = std::min(seconds, allowance->seconds_left());
  }
  if (target.budget.process) {
    Budget limited = target.budget;
    limited.process = process_limit_of(target.budget);
    release_free_memory();
    bytes = room_to_try(limited, bytes);
  }
  int timed = 0;
  if (seconds > 0 && bytes > 0) {
    const MeasureAllowance::Charge charge(allowance);
    const ScratchLimit scratch(allowance || target.budget.process ? bytes : std::numeric_limits<int64_t>::max());
    timed = times.measure(planned.plan, target.cost, seconds, bytes);
  }
  if (timed > 0) times.save(file);
  const int left = times.invalidated(planned.plan.trace);
  const auto say = [&](const std::string& decision, const std::string& why) {
    planned.settings.reasons.push_back({decision, why});
    planned.plan.reasons.push_back({decision, why});
  };
  if (left == stale) {  // a second plan would equal the first
    say(fmt::format("not timed again: {} operator{}", left, left == 1 ? "" : "s"),
        target.budget.process ? std::string("the process budget leaves no room to time them; typical rates are used")
        : allowance           ? fmt::format("{}; plimsoll train times {}", describe_limits(allowance->limits()),
                                  left == 1 ? "it" : "them")
                              : "timing takes too long; typical rates are used");
    return false;
  }
  PlanTarget again = target;
  again.cost = machine_cost_model(threads);
  again.cost.peer_link = target.cost.peer_link;
  again.cost.peer_latency = target.cost.peer_latency;
  again.cost.exchanges_overlap = target.cost.exchanges_overlap;
  planned = plan_training(step, options, again, search);
  say(fmt::format("operators timed again: {}", stale - left),
      fmt::format(
          "a run took at least 1.5 times or at most half of the time that was predicted from their times{}",
          left > 0 ? fmt::format("; {} more operators use typical rates because timing them takes long", left) : ""));
  return true;
}

}  // namespace plimsoll
