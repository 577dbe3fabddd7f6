// Declares the steps that a suggested change is composed of: the overrides of each, its cost in quality, and its effect
// on peak memory. Declares the model of a plan's peak memory that estimates the effect.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plimsoll/plan_job.h"

namespace plimsoll {

/// A split of the bytes at the peak of a plan. The search for changes scales the parts that a change affects, and so
/// estimates the new peak before it plans the change. No byte is in two fields. Parameters are split by their use and
/// by their size: 32 bits (wide) or 16 bits (half). `frozen_linear_…` has the frozen weights of a decoder's linear
/// layers, which can be quantized in blocks; `frozen_other_…` has all other frozen parameters.
struct PeakMemoryModel {
  double frozen_linear_wide = 0, frozen_linear_half = 0;
  double frozen_other_wide = 0, frozen_other_half = 0;
  double trained_wide = 0, trained_half = 0;
  double gradients = 0, state = 0, activations = 0, inputs = 0;
  double rest = 0;  ///< quantized blocks, context, scratch, fragmentation
  /// true: weights of the decoder's linear layers are trained directly, not through adapters.
  bool trains_linear = false;

  double parameters() const {
    return frozen_linear_wide + frozen_linear_half + frozen_other_wide + frozen_other_half + trained_wide +
           trained_half;
  }
  double total() const { return parameters() + gradients + state + activations + inputs + rest; }
  /// Converts the parameters in `wide` from 32 to 16 bits, and adds them to `half`.
  void halve(double PeakMemoryModel::*wide, double PeakMemoryModel::*half) {
    this->*half += this->*wide / 2;
    this->*wide = 0;
  }
  /// Quantizes the weights in `frozen_linear_wide` and `frozen_linear_half` to `bits` bits each, and adds them to
  /// `rest`.
  void quantize(double bits) {
    rest += frozen_linear_wide * bits / 32 + frozen_linear_half * bits / 16;
    frozen_linear_wide = frozen_linear_half = 0;
  }
};

/// Returns the split of the peak of `planned`; `decoder_layers` is the result of decoder_layers_of(): "llm.layers".
PeakMemoryModel peak_memory_of(const PlannedJob& planned, const std::string& decoder_layers);

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
