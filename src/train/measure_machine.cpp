// Implements measure_machine(): times the ops of a job's planned step on this machine.
#include <filesystem>

#include "device/host_memory.h"
#include "plimsoll/bytes.h"
#include "plimsoll/train_job.h"
#include "run/machine_cost.h"
#include "run/op_times.h"
#include "run/plan_options.h"

namespace plimsoll {

int measure_machine(const Job& job, double seconds, int64_t since) {
  if (job.device != "cpu") return 0;  // other devices go by the catalogue
  if (!job.precision) {  // the choice is between these two: by times of both, not by times of one and a guess
    int count = 0;
    for (Precision precision : {Precision::fp32_true, Precision::bf16_mixed}) {
      Job each = job;
      each.precision = precision;
      count += measure_machine(each, seconds / 2, since);
    }
    return count;
  }
  const TrainingOptions options = options_of(job);
  const int threads = threads_of(options);
  PlanTarget target = target_of(job);
  target.measuring = nullptr;  // the caller asks for measurements
  const PlannedJob planned = plan_job(job, target);
  OpTimes times(threads);
  times.load(op_times_file(threads));
  // Scratch is part of an op's time: the planned trace has it, and the ops that run again are the same.
  const int64_t bytes = planned.settings.budget.device.value_or(host_memory_now().value_or(GiB) / 2);
  const int count = times.measure(planned.plan.trace, typical_cost_model(threads), seconds, bytes, since);
  if (const std::filesystem::path file = op_times_file(threads); count > 0 && !file.empty()) times.save(file);
  return count;
}

}  // namespace plimsoll
