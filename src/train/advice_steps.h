// Declares the steps that a suggested change is composed of: the overrides of each, its cost in quality, and its
// estimated effect on peak memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plimsoll/train_job.h"
#include "train/peak_memory_model.h"

namespace plimsoll {

struct AdviceStep {
  int family = 0;  ///< steps of one family replace each other; a later one has a stronger effect
  std::vector<std::string> overrides;
  std::string meaning;
  /// Cost in quality and, for equal quality, in time. Examples: 0.6 for rounding that a loss curve rarely shows, 3 for
  /// samples of half the size.
  double quality_cost = 0;
  std::function<void(PeakMemoryModel&)> effect;  ///< applied after those of lower families
  bool mixed_only = false;                       ///< true: of no use without mixed precision
};

/// Returns one step for each choice that the job sets, that could be left to the planner, and that does not change the
/// results of training. If accumulation changes with the epoch, the step sets micro batches of 1 instead of leaving
/// them open.
std::vector<AdviceStep> unpinning_steps(const Job& job);

/// Returns the other possible changes of this job, by family and increasing cost. read_job decides whether a value is
/// allowed.
std::vector<AdviceStep> advice_steps(const Job& job, const PeakMemoryModel& memory, const PlanTarget& target);

/// Returns the module path of the layers of the job's decoder; empty: it has none.
std::string decoder_layers_of(const Job& job);

}  // namespace plimsoll
