// The changes that advice is made of, kind by kind, from the mildest on: what each costs, and what it is thought to do
// to the bytes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plimsoll/train_job.h"
#include "train/advice_load.h"

namespace plimsoll {

struct AdviceStep {
  int family = 0;  ///< of several steps of one, the stronger takes the place of the milder
  std::vector<std::string> overrides;
  std::string meaning;
  /// In quality, and where that is the same in time: 0.6 for rounding that hardly a curve shows, 3 for samples of half
  /// the size.
  double price = 0;
  std::function<void(AdviceLoad&)> effect;  ///< after those of lesser families
  bool mixed_only = false;                  ///< of no use without mixed precision
};

/// Choices that the job pins, left to the planner: none changes what is learned. One by one; all of them together are
/// the freest job.
std::vector<AdviceStep> freeing_steps(const Job& job);

/// What else may be changed of this job, by family and rising price. Whether a value is allowed is for read_job to say.
std::vector<AdviceStep> advice_steps(const Job& job, const AdviceLoad& load, const PlanTarget& target);

/// The path that the layers of the job's decoder lie under; empty: it has none.
std::string decoder_layers_of(const Job& job);

}  // namespace plimsoll
