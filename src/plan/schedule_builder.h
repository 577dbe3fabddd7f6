// Declares the builder of plans for one recorded step. It applies the choices of a search (PlanChoices), merges ops,
// assigns offsets and predicts times.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/passes/pipeline.h"
#include "plan/search/offload_search.h"
#include "plan/search/recompute_search.h"
#include "plimsoll/planner.h"

namespace plimsoll {

/// A builder of plans for one recorded step: each set of choices gives one plan.
class ScheduleBuilder {
 public:
  /// `base`: choices of the stage that prepares the trace, which all plans have.
  ScheduleBuilder(const Trace& recorded, const PlanOptions& options, PlanChoices base);

  const PlanOptions& options() const { return options_; }
  /// Returns the recorded trace after Stage::prepare. Choices refer to its ops and buffers.
  const Trace& trace() const { return trace_; }
  /// Returns the recomputation search; null if there is no training segment, and therefore no choice.
  const RecomputeSearch* search() const { return search_ ? &*search_ : nullptr; }
  /// Returns whether the trace has at most `factor` x SolverParameters::large_trace_ops ops. For larger traces the
  /// planner tries fewer alternative plans, because trying all of them takes seconds.
  bool is_small(size_t factor = 1) const;
  /// Returns the predicted seconds of a step without recomputation and offload; 0 without a training segment.
  double keep_all_step_seconds() const { return keep_all_step_seconds_; }
  /// Returns an upper bound of the seconds by which a step gets shorter if the host updates parameters.
  double max_update_seconds_saved() const;

  /// Returns a lower bound of the peak bytes of every placement without recomputation and offload.
  int64_t keep_all_peak_lower_bound() const { return keep_all_peak_lower_bound_; }

  /// Returns the plan of a trace without a training segment, which has no choices: only offsets are assigned and times
  /// predicted. No op is merged.
  Plan build_without_choices() const;
  /// Returns the plan that keeps the values chosen in `solution`.
  Plan build(const RecomputeSolution& solution) const;
  /// Returns the plan that keeps and offloads the values chosen in `solution`, and offloads the buffers of `variant`.
  /// `host_updates`: updates run on the host if they may. `limit`: bytes up to which the live transient bytes may
  /// grow so that copies overlap ops. Within it, a copy in may start before the op that needs its value, and ops may
  /// run between the last use of a value and the wait for its copy out.
  Plan build(const OffloadVariant& variant, const OffloadSolution& solution, bool host_updates, int64_t limit) const;

  /// Returns `plan` with exchanges between ranks overlapping other ops. Returns `plan` unchanged if that saves no time,
  /// or if only the unchanged plan fits `budget`.
  Plan with_overlap(Plan plan, std::optional<int64_t> budget) const;
  /// Returns `plan`, which fits `budget`, with ops that use the memory that remains as scratch (passes/grow_scratch).
  /// The peak grows by at most 1/32, or by at most 3 GiB if the step is predicted to be faster. Without a budget it
  /// does not grow.
  Plan with_scratch(Plan plan, std::optional<int64_t> budget) const;
  /// Returns an upper bound of the seconds of a step that with_overlap() saves.
  double max_overlap_seconds_saved() const { return max_overlap_seconds_saved_; }

  /// Returns `plan` after validation. Throws InternalError if it is unsound.
  Plan validated(Plan plan) const;
  /// Returns whether `plan` fits `budget` bytes of the device, and the host memory and disk of the options.
  bool fits(const Plan& plan, std::optional<int64_t> budget) const;
  /// Returns the bytes of a budget that remain for transient buffers, after context, libraries and `persistent` bytes.
  int64_t transient_limit(int64_t budget, int64_t persistent) const;
  /// Returns the predicted seconds of a step.
  double step_seconds(const Plan& plan) const;

 private:
  PassInputs inputs(const PlanChoices& choices) const;  // refers to `choices`
  double step_seconds(const StepTime& time) const;
  bool is_ragged() const;  // true: the last micro batch of a step is smaller

  const PlanOptions options_;
  const PlanChoices base_choices_;  // those of every plan
  const Trace trace_;
  // Predicted seconds without recomputation and offload: of the first micro batch, of the update, and of a step.
  double keep_all_micro_seconds_ = 0, keep_all_update_seconds_ = 0;
  double keep_all_step_seconds_ = 0;
  double max_overlap_seconds_saved_ = 0;
  int64_t keep_all_peak_lower_bound_ = 0;
  std::optional<RecomputeSearch> search_;
};

}  // namespace plimsoll
