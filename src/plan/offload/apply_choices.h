// How the offload search carries out choices: by the passes of the pipeline, which is in a room above.
#pragma once

#include <functional>
#include <vector>

#include "plan/graph/training_graph.h"
#include "plimsoll/plan.h"

namespace plimsoll {

/// Returns a prepared trace with choices carried out, ops not merged. `graphs` are the training graphs of the prepared
/// trace that values are counted by. `cost` says how long ops and copies take.
using ApplyChoices = std::function<Trace(Trace trace, const PlanChoices& choices,
                                         const std::vector<TrainingGraph>& graphs, const CostModel& cost)>;

}  // namespace plimsoll
