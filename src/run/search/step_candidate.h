// Declares one candidate of the search, a step with its settings, and the op times that a plan needs measured again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "device/backend.h"
#include "plimsoll/plan_training.h"
#include "run/op_times.h"

namespace plimsoll {

/// Returns true if the plan spends time to need less memory.
inline bool pays_for_memory(const Plan& plan) {
  return plan.checkpointed || plan.host_bytes + plan.disk_bytes > 0 || plan.time.norms > 0;
}

/// The best plan of some alternatives, and the smallest budget in bytes with which any of them fits.
struct Found {
  PlannedTraining planned;
  int64_t minimum_budget = 0;

  bool fits() const { return planned.plan.fits; }
  /// Returns true if this plan is better than `other`: only it fits, it is the faster of two that fit, or it needs less
  /// of two that do not.
  bool is_better_than(const Found& other) const {
    if (fits() != other.fits()) return fits();
    return fits() ? planned.step_seconds < other.planned.step_seconds : minimum_budget < other.minimum_budget;
  }
  /// Adds an alternative that needs at least `bytes`, and is not better.
  void add(int64_t bytes) { minimum_budget = std::min(minimum_budget, bytes); }
  /// Adds the alternatives of `other`: keeps the better plan, and the smaller minimum budget.
  void add(Found other) {
    if (other.is_better_than(*this)) planned = std::move(other.planned);
    add(other.minimum_budget);
  }
  /// Returns the plan with its minimum budget. No other function sets PlannedStep::minimum_budget_bytes.
  PlannedTraining result() && {
    planned.minimum_budget_bytes = minimum_budget;
    return std::move(planned);
  }
};

/// A step of one micro batch size: recorded once, planned under any budget.
class StepCandidate {
 public:
  /// Records the step. `options` state precision, formats, strategy, micro batch and accumulation. Calls
  /// `search.on_schedule` before that and before each schedule. `target` and `search` must outlive this.
  StepCandidate(const StepOfSize& step, const TrainingOptions& options, const PlanTarget& target,
                const SearchOptions& search);

  /// Plans the step. Scratch that only a run shows is not measured for a step that does not fit without it: running a
  /// kernel of each kind is most of the planning time. `exact`: it is measured anyway. Calls `search.on_fit` with the
  /// bytes of a plan that fits before the fastest one is searched.
  Found plan(std::optional<int64_t> budget, bool exact);

  /// Returns true if probably no plan under the budget takes less than `seconds` per step, and if this is known without
  /// a plan. If scratch was not measured yet, only plan() knows whether the step fits.
  bool takes_longer_than(double seconds, std::optional<int64_t> budget) {
    return budget && !to_be_probed_ && planner().step_seconds_lower_bound(*budget) >= seconds;
  }
  int64_t minimum_budget() { return planner().minimum_budget(); }

  /// Returns true if a plan takes a few tenths of a second or more.
  bool large() const { return recorded_.ops.size() > plan_options_.solver.large_trace_ops; }

 private:
  // Returns the planner, which is made when it is first requested.
  const Planner& planner();
  // Measures the scratch of ops, so that a plan alone reports the needs of a run. Large ops are left to the run.
  void probe();

  const SearchOptions& search_;
  ResolvedSettings settings_;
  PlanOptions plan_options_;
  Backend* backend_ = nullptr;  // backend of the target, if it is on this machine
  bool to_be_probed_ = false;
  std::shared_ptr<MeasureAllowance> measuring_;  // nullptr: no limit
  Trace recorded_;
  double record_seconds_ = 0;
  std::shared_ptr<const MeasuredWorkspace> workspace_;
  std::optional<Planner> planner_;
  std::optional<Plan> misfit_;  // the last plan, if it did not fit: it is requested for its verdict, then for its need
};

/// Returns true if a run's steps contradict their prediction: they take at least 1.5 times or at most 0.5 times as
/// long.
bool prediction_failed(double predicted_seconds, double measured_seconds);

/// Marks op times as wrong after a run on the CPU whose steps were predicted to take `predicted_seconds` and took
/// `measured_seconds`, waits for data not counted. If the prediction used timed ops and is contradicted, the cache
/// folder keeps the times of the plan's ops as contradicted. Returns a line that says so; otherwise an empty text.
std::string invalidate_op_times(const PlannedTraining& planned, int threads, double predicted_seconds,
                                double measured_seconds);

/// Returns the probable cause that other processes use the same cores, for a message. It holds if the steps took at
/// least 1.5 times as long as predicted, and the load average (runnable threads, over the last minute) exceeds both the
/// number of cores and `own_threads`, those of this run, by at least 0.5. Otherwise returns an empty text; `load` is 0
/// if it is not known.
std::string shared_cores_cause(double predicted_seconds, double measured_seconds, double load, int cores,
                               int own_threads);

/// Times the plan's contradicted ops again, for at most 10 seconds and within the target's allowance, and then plans
/// the training again by the new times, with a reason that says it. Calls `search.on_schedule` before each timing, too.
/// Returns false if it did not plan again: no run has contradicted an op, or none was timed, for which it adds a
/// reason.
bool retime_stale_ops(PlannedTraining& planned, const StepOfSize& step, const TrainingOptions& options,
                      const PlanTarget& target, const SearchOptions& search);

}  // namespace plimsoll
