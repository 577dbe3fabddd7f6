// Why a schedule is as it is, in words.
#pragma once

#include <vector>

#include "plan/graph/training_graph.h"
#include "plimsoll/plan.h"

namespace plimsoll {

/// One reason for each kind of value that is rebuilt (values of the same name in different blocks are one kind), those
/// with most bytes first, `most` at most; the last says what the others come to.
std::vector<Reason> explain_recomputation(const Trace& trace, const TrainingGraph& graph, const KeptValues& kept,
                                          size_t most);

/// Why saved values (`moved`, by value) and state lie in host memory under `plan`, whose times and bytes are filled in.
std::vector<Reason> explain_offload(const Trace& trace, const TrainingGraph& graph, const std::vector<char>& moved,
                                    const CostModel& cost, const Plan& plan);

}  // namespace plimsoll
