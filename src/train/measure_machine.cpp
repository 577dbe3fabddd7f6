// Implements measure_machine(): times the ops of a job's planned step on this machine.
#include <filesystem>

#include "device/host_memory.h"
#include "plimsoll/bytes.h"
#include "plimsoll/plan_job.h"
#include "run/machine_cost.h"
#include "run/op_times.h"
#include "run/plan_options.h"

namespace plimsoll {

int measure_machine(const Job& job, double seconds, int64_t since) {
  if (job.device != "cpu") return 0;  // other devices use the catalogue's rates
  if (!job.precision) {               // the planner chooses between these two, so both need measured times
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
  target.measuring = nullptr;  // the caller requested measurements
  const PlannedJob planned = plan_job(job, target);
  OpTimes times(threads);
  times.load(op_times_file(threads));
  // An op's time includes scratch: the planned trace has it, and recomputed ops are the same as recorded ones.
  const int64_t bytes = planned.settings.budget.device.value_or(current_host_memory().value_or(GiB) / 2);
  const int count = times.measure(planned.plan.trace, typical_cost_model(threads), seconds, bytes, since);
  if (const std::filesystem::path file = op_times_file(threads); count > 0 && !file.empty()) times.save(file);
  return count;
}

}  // namespace plimsoll
