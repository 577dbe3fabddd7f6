// Plans a training step, with the scratch that kernels of this machine take.
#include <ATen/Parallel.h>

#include <memory>
#include <utility>

#include "device/backend.h"
#include "plimsoll/machine.h"
#include "plimsoll/training.h"
#include "run/measured_workspace.h"
#include "run/plan_options.h"

namespace plimsoll {

PlannedStep plan_step(const Step& step, const TrainingOptions& options) {
  Backend* const backend = find_backend(options.device);  // must come before the first use of libtorch's list of
                                                          // devices
  PlannedStep planned;
  planned.recorded = record_step(step, options);
  PlanOptions plan_options = plan_options_of(options, backend);
  // Scratch without a rule is measured before the step is checked against the budget; for large ops, at the start.
  if (backend) {
    at::set_num_threads(threads_of(options));
    if (options.device == "cpu") kernel_choices();  // measured now, not by the first step
    const auto measured = std::make_shared<MeasuredWorkspace>(plan_options.workspace);
    measured->probe(planned.recorded, kProbedBytes, *backend);
    plan_options = with_measured(std::move(plan_options), *measured);
    planned.workspace = measured;
  }
  planned.plan = make_plan(planned.recorded, plan_options);
  return planned;
}

}  // namespace plimsoll
