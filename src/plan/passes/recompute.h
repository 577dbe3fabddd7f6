// Declares the recompute pass: it runs forward ops a second time in the backward pass for values that are not kept.
//
// Such a value is dropped after its last use in forward, and recomputed just before backward first needs it.
//
//     forward    a  b  c  d            kept: a, d
//     backward         [d'] [b, c recomputed] [c' b']
//
// Ops that draw random numbers keep their id and draw the same numbers again: bit-equal results. The pass runs after
// remove_dead_ops, so that dead ops are not recomputed, and before every pass that depends on lifetimes, which it
// changes. If updates are among backward ops, sink_updates (plan/passes/update_in_backward.h) runs right after it.
// Sources: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; Jain et al., "Checkmate", MLSys 2020.
#pragma once

#include <vector>

#include "plan/passes/training_graph.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// A choice of kept values for one training segment.
struct RecomputeChoice {
  const TrainingGraph* graph = nullptr;  ///< graph of the trace that is passed to recompute()
  KeptValues kept;
};

/// Returns the trace with the choices applied. Each choice is for another segment.
Trace recompute(Trace trace, const std::vector<RecomputeChoice>& choices);

}  // namespace plimsoll
