// Declares the reasons for recomputation and offload in a schedule, as text.
#pragma once

#include <vector>

#include "plan/graph/training_graph.h"
#include "plimsoll/plan.h"

namespace plimsoll {

/// Returns one reason for each kind of recomputed value, those with most bytes first. Values with the same name in
/// different blocks are one kind. At most `most` reasons; the last one has the sum of all remaining kinds.
std::vector<Reason> explain_recomputation(const Trace& trace, const TrainingGraph& graph, const KeptValues& kept,
                                          size_t max_reasons);

/// Returns the reasons why saved values (`offloaded`, by value) and state are in host memory under `plan`. The times
/// and bytes of `plan` must be set.
std::vector<Reason> explain_offload(const Trace& trace, const TrainingGraph& graph, const std::vector<char>& offloaded,
                                    const CostModel& cost, const Plan& plan);

}  // namespace plimsoll
