// Chooses the micro batch of a training whose precision and formats are set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/plan_training.h"
#include "run/search/found.h"
#include "run/search/step_candidate.h"

namespace plimsoll {

class MicroBatchSearch {
 public:
  /// `options` state a precision and formats. All arguments but `options` must outlive this.
  MicroBatchSearch(const StepOfSize& step, TrainingOptions options, const PlanTarget& target,
                   const SearchOptions& search);

  /// Chooses the micro batch with the least time among those that fit. Larger ones use a device better, and need more
  /// memory. The search starts at the largest that fits, and goes down to one that fits without recomputation; smaller
  /// ones cannot be faster.
  Found choose(std::optional<int64_t> budget);

  /// Returns the smaller of the minimum budgets of the smallest and of the largest micro batch. Either the smallest has
  /// the smallest need, or the largest, which need not accumulate.
  int64_t minimum_budget();

 private:
  struct Open {
    int64_t micro_batch_size;
    AccumulationSchedule accumulation;
    std::unique_ptr<StepCandidate> candidate;  // recorded when it is first requested
  };

  StepCandidate& candidate(size_t index);
  int64_t minimum_budget_of(size_t index);
  std::string micro_batch_reason(const PlannedTraining& planned, size_t evaluated) const;

  const StepOfSize& step_;
  TrainingOptions options_;
  const PlanTarget& target_;
  const SearchOptions& search_;
  std::vector<Open> open_;  // by increasing micro batch
};

}  // namespace plimsoll
