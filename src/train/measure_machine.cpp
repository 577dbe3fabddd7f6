// Implements measure_machine(): times the ops of a job's planned step on this machine.
#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/measurement.h"
#include "device/host_memory.h"
#include "plimsoll/bytes.h"
#include "plimsoll/plan_job.h"
#include "run/machine_cost.h"
#include "run/op_times.h"
#include "run/plan_options.h"
#include "train/plan_once.h"

namespace plimsoll {

int measure_machine(const Job& job, double seconds, int64_t since) {
  if (job.device != "cpu") return 0;            // other devices use the catalogue's rates
  if (job.precision == Precision::automatic) {  // the planner chooses between these two, so both need measured times
    int count = 0;
    for (Precision precision : {Precision::fp32_true, Precision::bf16_mixed}) {
      Job each = job;
      each.precision = precision;
      count += measure_machine(each, seconds / 2, since);
    }
    return count;
  }
  const int threads = threads_of(job);
  const std::filesystem::path file = op_times_file(threads);
  const double end = measuring_machine().now() + seconds;
  int count = 0;
  std::vector<int64_t> micro_batches;
  for (double left = seconds; left > 0; left = end - measuring_machine().now()) {
    PlanTarget target = target_of(job);
    target.measuring = nullptr;  // the caller requested measurements
    const PlannedJob planned = plan_once(job, target);
    const int64_t micro_batch = planned.settings.micro_batch();
    if (std::ranges::find(micro_batches, micro_batch) != micro_batches.end()) break;
    micro_batches.push_back(micro_batch);
    OpTimes times(threads);
    times.load(file);
    // An op's time includes scratch: the planned trace has it, and recomputed ops are the same as recorded ones.
    const int64_t bytes = planned.settings.budget.device.value_or(current_host_memory().value_or(GiB) / 2);
    // Ops that were timed for another micro batch keep their time.
    const int timed = times.measure(planned.plan, typical_cost_model(threads), left, bytes, since);
    count += timed;
    if (file.empty() || timed == 0) break;
    times.save(file);
    // The new times may make another micro batch the fastest by prediction, because its ops still have estimated times.
    if (job.micro_batch_size) break;
  }
  return count;
}

}  // namespace plimsoll
