#include "plimsoll/compare.h"

#include <fmt/format.h>

#include "device/available_memory.h"
#include "device/backend.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "plimsoll/train_job.h"
#include "run/op_times.h"

namespace plimsoll {
namespace {

struct Rung {
  std::string name;
  Job job;
  double down = 0;  // part of the way from the peak of the previous rung down to its minimum budget
};

void set_micro_batch(Job& job, int64_t micro_batch) {
  job.micro_batch_size = micro_batch;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, (*job.batch_size + micro_batch - 1) / micro_batch}};
}

// Returns the rungs: each adds one method to the previous one; the last is the unchanged job.
std::vector<Rung> ladder_of(const Job& job, int64_t steps) {
  Job base = job;
  base.max_steps = steps;
  base.max_epochs.reset();
  base.checkpoint = {};
  base.log = {};
  base.eval_every_n_steps = 0;
  base.data.validation_fraction = 0;
  base.data.evaluate_on = "validation";
  base.data.evaluated = false;  // also if a list holds samples out
  std::vector<Rung> ladder;
  Job next = base;
  next.budget.device.reset();  // all memory of the machine
  next.precision = Precision::fp32_true;
  next.gradient_checkpointing = next.update_in_backward = Choice::off;
  next.optimizer.state_dtype = StateDtype::as_parameters;
  next.optimizer.weight_update = WeightUpdate::stochastic;
  next.accumulator_dtype = AccumulatorDtype::as_gradients;
  next.fine_tuning = {};
  set_micro_batch(next, *job.batch_size);
  ladder.push_back({"float32", next});
  if (job.fine_tuning.any()) {
    next.fine_tuning = job.fine_tuning;
    ladder.push_back({"+ frozen parts, adapters", next});
  }
  const bool mixed = job.precision == Precision::bf16_mixed || job.precision == Precision::fp16_mixed;
  next.precision = mixed ? job.precision : Precision::bf16_mixed;
  ladder.push_back({"+ mixed precision", next});
  next.gradient_checkpointing = Choice::on;
  ladder.push_back({"+ checkpointing", next});
  const int64_t micro = (*job.batch_size + 3) / 4;
  const bool accumulates = micro < *job.batch_size;
  if (accumulates) {
    set_micro_batch(next, micro);
    ladder.push_back({"+ accumulation", next});
  }
  Job offloaded = next;
  offloaded.budget.host = std::max(job.budget.host, current_host_memory().value_or(GiB) / 4);
  ladder.push_back({"+ offload", offloaded, /*down=*/0.5});
  ladder.push_back({"+ streaming", offloaded, /*down=*/0.85});
  next.optimizer.state_dtype = StateDtype::bits8;
  ladder.push_back({"+ 8-bit state, no offload", next});
  next.precision = Precision::bf16_true;
  ladder.push_back({"+ bfloat16 weights", next});
  if (accumulates) {
    next.accumulator_dtype = AccumulatorDtype::bits8;
    ladder.push_back({"+ 8-bit sums of gradients", next});
  }
  next.accumulator_dtype = AccumulatorDtype::as_gradients;
  next.update_in_backward = Choice::on;
  next.max_grad_norm = 0;
  set_micro_batch(next, *job.batch_size);
  ladder.push_back({accumulates ? "updates in backward instead" : "+ updates in backward", next});
  ladder.push_back({"planner's choice", base});
  return ladder;
}

std::string settings_of(const PlannedJob& planned) {
  const StepTime& time = planned.plan.time;
  std::string text =
      fmt::format("{}, micro batch {}", name_of(planned.settings.precision), describe_micro_batches(planned.settings));
  if (planned.plan.checkpointed) text += fmt::format(", {:.1f} % recomputed", 100 * time.recompute_share());
  if (planned.plan.update_in_backward) text += ", updates in backward";
  if (planned.plan.host_bytes > 0) text += fmt::format(", {} in host memory", format_bytes(planned.plan.host_bytes));
  if (planned.plan.offloaded_parameter_bytes > 0) text += ", parameters streamed";
  if (planned.plan.disk_bytes > 0) text += fmt::format(", {} on disk", format_bytes(planned.plan.disk_bytes));
  return text;
}

// Trains a row. A row that fit when it was planned does not fit any more if another program has allocated the memory
// since.
TrainReport trained(const Job& job, const PlannedJob& planned) {
  TrainObserver nobody;
  try {
    return train_job(job, nobody);
  } catch (const MemoryUnavailable&) {
    TrainReport refused;
    refused.fits = false;
    refused.planned_peak_bytes = planned.plan.peak_bytes;
    return refused;
  }
}

}  // namespace

std::vector<CompareRow> compare_job(const Job& job, const CompareOptions& options) {
  backend_for(job.device);  // rows are trained; the error says what is missing
  require_data(job);
  // The speed of machines changes, so op times of another comparison are not used.
  const int64_t start = unix_seconds_now();
  std::vector<CompareRow> rows;
  const std::vector<Rung> ladder = ladder_of(job, options.steps);
  for (size_t i = 0; i < ladder.size(); ++i) {
    Rung rung = ladder[i];
    if (options.stop && options.stop()) break;
    if (options.on_row) options.on_row(static_cast<int>(i), static_cast<int>(ladder.size()), rung.name);
    if (options.measure_seconds > 0) measure_machine(rung.job, options.measure_seconds, start);
    const auto plan_for_run = [&] {
      PlanTarget target = target_of(rung.job);
      target.measuring = nullptr;  // the row is trained next
      return plan_job(rung.job, target);
    };
    PlannedJob planned = plan_for_run();
    if (rung.down > 0) {
      const int64_t room = planned.plan.peak_bytes - planned.minimum_budget_bytes;
      rung.job.budget.device = planned.plan.peak_bytes - static_cast<int64_t>(rung.down * static_cast<double>(room));
      planned = plan_for_run();
    }
    CompareRow row;
    row.name = rung.name;
    row.settings = settings_of(planned);
    row.fits = planned.plan.fits;
    row.budget_bytes = planned.plan.budget.device_bytes();
    row.planned_peak_bytes = planned.plan.peak_bytes;
    row.planned_host_bytes = planned.plan.host_bytes;
    row.planned_disk_bytes = planned.plan.disk_bytes;
    row.predicted_step_seconds = planned.step_seconds;
    if (row.fits) {
      Job resolved = resolved_job(rung.job, planned);
      resolved.budget.device = rung.job.budget.device;  // if it is open: the memory that is available when the row
                                                        // begins
      const TrainReport report = trained(resolved, planned);
      row.fits = report.fits;
      row.planned_peak_bytes = report.planned_peak_bytes;
      row.measured_peak_bytes = report.measured_peak_bytes;
      row.planned_host_bytes = report.job.plan.host_bytes;
      row.measured_host_bytes = report.used.host;
      row.planned_disk_bytes = report.job.plan.disk_bytes;
      row.measured_disk_bytes = report.used.disk;
      row.measured_step_seconds = report.step_seconds;
      if (report.predicted_step_seconds > 0) row.predicted_step_seconds = report.predicted_step_seconds;
      if (!report.losses.empty()) row.final_loss = report.losses.back();
      if (report.stopped) return rows;  // an interrupted row is no measurement
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace plimsoll
