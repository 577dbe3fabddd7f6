// Declares the pipeline: the passes in order, from the recorded trace to the validated plan.
//
// run_passes() is the only caller of passes. The search runs the first stage once, and the stages after
// it once for each set of choices that it tries.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/passes/training_graph.h"
#include "plimsoll/planner.h"

namespace plimsoll {

/// A part of the pipeline, in order.
enum class Stage : uint8_t {
  prepare,     ///< computes the trace that the searches work on
  choices,     ///< applies recomputation and offload
  merging,     ///< merges several ops into one
  overlap,     ///< overlaps exchanges between ranks with other ops
  scratch,     ///< gives ops more scratch within the memory that remains
  placement,   ///< assigns offsets in the arenas
  validation,  ///< throws InternalError if the plan is unsound
};

/// A set of inputs of the passes in addition to the trace.
struct PassInputs {
  const PlanOptions& options;
  const PlanChoices& choices;
  const CostModel& cost;  ///< predicts the seconds of the ops of this trace
  /// Training graphs of the prepared trace, for Stage::choices; null: none.
  const std::vector<TrainingGraph>* graphs = nullptr;
  const PassObserver* observer = nullptr;  ///< receives every pass; null: none, and no trace is copied for it
};

/// Runs the passes of stages `first` to `last` on `plan.trace` and returns the plan. It has offsets from
/// Stage::placement on. Calls PlanOptions::on_schedule before Stage::choices.
Plan run_passes(Plan plan, Stage first, Stage last, const PassInputs& inputs);

/// Returns the report of a pass that changed the trace to `after`.
PassReport report_of(std::string_view pass, const Trace& after);

/// Returns the recorded trace after Stage::prepare, by the choices that this stage applies.
Trace prepare_trace(Trace trace, const PlanChoices& choices = {}, const PlanOptions& options = {});

/// Returns a prepared trace with `choices` applied and without merged ops: the trace after Stage::choices. `graphs` are
/// the training graphs of the prepared trace; choices by value refer to them. `cost` predicts the seconds of ops and
/// copies.
Trace apply_choices(Trace trace, const PlanChoices& choices, const std::vector<TrainingGraph>& graphs,
                    const CostModel& cost);

/// Returns the trace with `workspace_bytes` of each op from `model`, for the device planned for. Ops that the model
/// does not know keep theirs. `model` must not be empty. The pass runs first: every later pass and all searches count
/// scratch among the live bytes.
Trace apply_workspace_model(Trace trace, const WorkspaceModel& model);

}  // namespace plimsoll
