#include <optional>
#include <utility>

#include "plan/passes/pipeline.h"
#include "plan/recompute/recompute_search.h"
#include "plimsoll/error.h"
#include "trace/same_trace.h"

namespace plimsoll {

void observe_passes(const Trace& recorded, const Plan& plan, const PlanOptions& options, const PassObserver& observer) {
  PassInputs inputs{options, plan.choices, options.cost};
  inputs.observer = &observer;
  Plan again;
  again.trace = recorded;
  observer(report_of("recorded", again.trace), again.trace);
  again = run_passes(std::move(again), Stage::prepare, Stage::prepare, inputs);
  const Trace prepared = again.trace;
  std::optional<RecomputeSearch> search;  // provides the training graphs that the choices refer to
  if (prepared.segment(SegmentKind::micro))
    inputs.graphs = &search.emplace(prepared, options.cost, options.solver.recompute).graphs();
  again = run_passes(std::move(again), Stage::choices, Stage::placement, inputs);
  check(same_trace(again.trace, plan.trace) && again.offsets == plan.offsets &&
            again.workspace_offsets == plan.workspace_offsets,
        "the passes, run again with the choices of a plan, gave another plan");
  run_passes(plan, Stage::validation, Stage::validation, inputs);
}

}  // namespace plimsoll
