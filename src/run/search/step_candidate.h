// Declares a candidate of the planner: a step of one micro batch size, with every other choice made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "device/backend.h"
#include "run/measured_workspace.h"
#include "run/search/found.h"

namespace plimsoll {

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

}  // namespace plimsoll
