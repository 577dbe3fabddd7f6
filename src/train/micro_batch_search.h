// Chooses the micro batch of a job whose precision and formats are set.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/plan_job.h"
#include "train/job_candidate.h"

namespace plimsoll {

class MicroBatchSearch {
 public:
  /// `job` has a precision. `target`, `on_schedule` and `on_fit` are those of plan_job(), and must outlive this.
  MicroBatchSearch(Job job, const PlanTarget& target, const std::function<void()>& on_schedule,
                   const std::function<void(int64_t)>& on_fit);

  /// Chooses the micro batch with the least time among those that fit. Larger ones use a device better, and need more
  /// memory. The search starts at the largest that fits, and goes down to one that fits without recomputation; smaller
  /// ones cannot be faster.
  PlannedJob choose(std::optional<int64_t> budget);

  /// Returns the smaller of the minimum budgets of the smallest and of the largest micro batch. Either the smallest has
  /// the smallest need, or the largest, which need not accumulate.
  int64_t minimum_budget();

 private:
  struct Open {
    int64_t micro_batch_size;
    AccumulationSchedule accumulation;
    std::unique_ptr<JobCandidate> candidate;  // recorded when it is first requested
  };

  JobCandidate& candidate(size_t index);
  int64_t minimum_budget_of(size_t index);
  std::string micro_batch_reason(const PlannedJob& planned, size_t evaluated) const;

  Job job_;
  const PlanTarget& target_;
  const std::function<void()>& on_schedule_;
  const std::function<void(int64_t)>& on_fit_;
  std::vector<Open> open_;  // by increasing micro batch
};

}  // namespace plimsoll
