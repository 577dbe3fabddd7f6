// Plans a training step whose choices are made, with the scratch that kernels of this machine take.
#include <ATen/Parallel.h>

#include "plimsoll/machine.h"
#include "plimsoll/training.h"
#include "run/plan_options.h"
#include "run/search/step_candidate.h"

namespace plimsoll {

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
