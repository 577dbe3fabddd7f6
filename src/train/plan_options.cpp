#include "train/plan_options.h"

#include <algorithm>
#include <thread>

#include "device/cpu_workspace.h"
#include "device/cuda_workspace.h"

namespace plimsoll {

int threads_of(const TrainingOptions& options) {
  return options.threads > 0 ? options.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

PlanOptions plan_options_of(const TrainingOptions& options) {
  PlanOptions result;
  result.memory_budget = options.memory_budget;
  result.micro_batches = options.micro_batches;
  result.host_memory_budget = options.host_memory_budget;
  result.disk_budget = options.disk_budget;
  result.gradient_checkpointing = options.gradient_checkpointing;
  result.checkpointed_module = options.checkpointed_module;
  result.update_in_backward = options.update_in_backward;
  result.context_bytes = options.context_bytes;
  result.library_bytes = options.library_bytes;
  result.cost = options.cost;
  if (options.device == "cpu") result.workspace = cpu_workspace_model(threads_of(options));
  if (options.device == "cuda") result.workspace = cuda_workspace_model();
  return result;
}

}  // namespace plimsoll
