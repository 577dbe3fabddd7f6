// Declares the steps that a suggested change is composed of: the overrides of each, its cost in quality, and its
// estimated effect on peak memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plimsoll/plan_job.h"
#include "train/peak_memory_model.h"

namespace plimsoll {

/// A step: one part of a suggested change.
struct AdviceStep {
  int family = 0;  ///< kind of change: a suggested change has at most one step of each family
  std::vector<std::string> overrides;
  std::string meaning;
  /// Loss of quality on a scale without a unit, by which changes are sorted; among steps of equal quality, the slower
  /// one costs more. Examples: 0.6 for rounding that a loss curve rarely shows, 3 for samples of half the size.
  double quality_cost = 0;
  /// Changes the PeakMemoryModel of a job as the step changes the job's peak. The effects of several steps are applied
  /// by ascending family.
  std::function<void(PeakMemoryModel&)> effect;
  bool mixed_only = false;  ///< true: the step is tried only with mixed precision, because it saves nothing otherwise
};

/// Returns one step for each choice that the job sets although the planner can make it. Such a step does not change the
/// results of training. If accumulation changes with the epoch, the step sets micro batches of 1 instead of leaving
/// them open.
std::vector<AdviceStep> open_choice_steps(const Job& job);

/// Returns the other possible steps of this job, by ascending family. read_job() may refuse an override of a step: the
/// caller checks that.
std::vector<AdviceStep> advice_steps(const Job& job, const PeakMemoryModel& memory, const PlanTarget& target);

/// Returns the module path of the layers of the job's decoder; empty: it has none.
std::string decoder_layers_of(const Job& job);

}  // namespace plimsoll
