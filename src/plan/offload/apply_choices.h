// Declares the function by which the offload search applies choices.
//
// It runs passes of the pipeline (plan/pipeline.h), which is a layer above the search.
#pragma once

#include <functional>
#include <vector>

#include "plan/graph/training_graph.h"
#include "plimsoll/plan.h"

namespace plimsoll {

/// Returns a prepared trace with `choices` applied and without merged ops. `graphs` are the training graphs of the
/// prepared trace; choices by value refer to them. `cost` predicts the seconds of ops and copies.
using ApplyChoices = std::function<Trace(Trace trace, const PlanChoices& choices,
                                         const std::vector<TrainingGraph>& graphs, const CostModel& cost)>;

}  // namespace plimsoll
