// Recomputation: values of forward that are not kept are dropped after their last use in forward and rebuilt, by the
// same ops, just before backward first needs them.
//
//     forward    a  b  c  d            kept: a, d
//     backward         [d'] [b again, c again] [c' b']
//
// Ops that draw random numbers keep their id and so draw the same numbers again: bit-equal results. Runs after
// remove_dead_ops, so that dead ops are not run twice; and before anything that depends on lifetimes, which it changes.
// settle_updates (plan/passes/update_in_backward.h) runs right after it, where updates are among backward ops.
// Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; Jain et al., "Checkmate", MLSys 2020.
#pragma once

#include <vector>

#include "plan/graph/training_graph.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// What to keep in one training segment.
struct RecomputeChoice {
  const TrainingGraph* graph = nullptr;  ///< of the trace that the pass is given
  KeptValues kept;
};

/// The trace with the choices carried out; those of different segments.
Trace recompute(Trace trace, const std::vector<RecomputeChoice>& choices);

}  // namespace plimsoll
