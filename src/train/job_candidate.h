// Declares a candidate of the planner: a job with one micro batch size.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "device/backend.h"
#include "plimsoll/plan_job.h"
#include "run/measured_workspace.h"

namespace plimsoll {

/// A job with one micro batch size: recorded once, planned under any budget.
class JobCandidate {
 public:
  /// Records the step. `on_schedule` is called before it and before each schedule.
  JobCandidate(const Job& job, const PlanTarget& target, int64_t micro_batch_size,
               const AccumulationSchedule& accumulation, const std::function<void()>& on_schedule);

  /// Plans the job. Scratch that only a run shows is not measured for a job that does not fit without it: running a
  /// kernel of each kind is most of the planning time. `exact`: it is measured anyway. `on_fit` is called with the
  /// bytes of a plan that fits before the fastest one is searched.
  PlannedJob plan(std::optional<int64_t> budget, bool exact, const std::function<void(int64_t)>& on_fit);

  /// Returns true if probably no plan under the budget takes less than `seconds` per step, and if this is known without
  /// a plan. If scratch was not measured yet, only plan() knows whether the job fits.
  bool takes_longer_than(double seconds, std::optional<int64_t> budget) const {
    return budget && !to_be_probed_ && planner_->step_seconds_lower_bound(*budget) >= seconds;
  }
  int64_t minimum_budget() const { return planner_->minimum_budget(); }

  /// Returns true if a plan takes a few tenths of a second or more.
  bool large() const { return recorded_.ops.size() > plan_options_.solver.large_trace_ops; }

 private:
  // Measures scratch as plan_step() does, so that a plan alone reports the needs of a run. Large ops are left to the
  // run.
  void probe();
  // Returns the plan, and stores one that does not fit, because it is requested twice: to see whether it fits, and for
  // its need.
  Plan answer_to(std::optional<int64_t> budget);

  ResolvedSettings settings_;
  int64_t units_of_sample_ = 0;
  PlanOptions plan_options_;
  int threads_ = 0;
  Backend* backend_ = nullptr;  // backend of the target, if it is on this machine
  bool to_be_probed_ = false;
  std::shared_ptr<MeasureAllowance> measuring_;  // nullptr: no limit
  Trace recorded_;
  double record_seconds_ = 0;
  std::shared_ptr<const MeasuredWorkspace> workspace_;
  std::optional<Planner> planner_;
  std::optional<Plan> misfit_;  // the last plan, if it did not fit
};

}  // namespace plimsoll
