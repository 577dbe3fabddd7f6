// One step, prepared for planning, and the finished schedules that choices make of it: carried out, fused, placed and
// timed.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/offload/arrangement.h"
#include "plan/offload/offload_search.h"
#include "plan/pipeline.h"
#include "plan/recompute/recompute_search.h"
#include "plimsoll/plan.h"

namespace plimsoll {

class Schedules {
 public:
  Schedules(const Trace& recorded, const PlanOptions& options, bool updates_in_backward);

  const PlanOptions& options() const { return options_; }
  /// What choices are made over: no member of it changes.
  const Trace& trace() const { return trace_; }
  /// Null where there is no training segment: then there is nothing to choose.
  const RecomputeSearch* search() const { return search_ ? &*search_ : nullptr; }
  /// Larger traces are not planned under budgets nearby as well: that would take seconds.
  /// `times`: the same of so many times as many ops.
  bool small(size_t times = 1) const;
  /// What a step takes where nothing is recomputed and nothing lies elsewhere.
  double seconds_at_once() const { return seconds_at_once_; }
  /// What a step may gain at most where the host updates parameters.
  double update_seconds_saved() const;

  /// No placement of the step takes fewer bytes where nothing is recomputed and nothing lies elsewhere.
  int64_t least_at_once() const { return least_at_once_; }

  /// The step as it was recorded.
  Plan unchanged() const;
  /// With what was chosen to keep.
  Plan with(const RecomputeAnswer& answer) const;
  /// With part of its buffers elsewhere, too. `limit`: live bytes that copies may not exceed to overlap ops.
  Plan with(const Arrangement& arrangement, const OffloadAnswer& answer, bool host_updates, int64_t limit) const;

  /// Returns a finished plan whose exchanges between ranks run beside other ops, as far as that fits `budget` and takes
  /// less time; otherwise the plan as it is.
  Plan with_overlap(Plan plan, std::optional<int64_t> budget) const;
  /// The most seconds of a step that with_overlap() may save.
  double overlap_seconds_saved() const { return overlap_saved_; }

  /// Throws InternalError if the plan is unsound.
  Plan validated(Plan plan) const;
  bool fits(const Plan& plan, std::optional<int64_t> budget) const;
  /// What is left of a budget for what lives only for a while.
  int64_t limit_under(int64_t budget, int64_t persistent) const;
  /// The predicted seconds of a step.
  double step_of(const Plan& plan) const;

 private:
  Plan run(Stage first, Stage last, Trace trace, const PlanChoices& choices) const;
  Plan placed(const Trace& trace, PlanChoices choices) const;
  double step_of(const StepTime& time) const;
  bool is_ragged() const;  // steps end with a smaller micro batch

  const PlanOptions options_;
  const bool updates_in_backward_;
  const Trace trace_;
  double micro_at_once_ = 0, update_at_once_ = 0;  // seconds of these segments where nothing is moved or run again
  double seconds_at_once_ = 0;
  double overlap_saved_ = 0;  // at most
  int64_t least_at_once_ = 0;
  std::optional<RecomputeSearch> search_;
};

}  // namespace plimsoll
