// Declares the pass that merges a sum and the norm that reads it, and a norm's backward and the sum that adds its
// gradient.
//
//     s = x + r;  y, rstd = rms_norm(s)              ->   s, y, rstd        s is read while it is in the cache
//     dx, dw = rms_norm_backward(…);  g = g + dx     ->   g, dw             dx is never stored
//
// It runs on a finished schedule, for the reasons given in fuse_pointwise.h. It runs before fuse_pointwise: a sum that
// is merged here has less traffic than in a chain, unless the chain makes the value that it adds.
#pragma once

#include "plimsoll/planner.h"
#include "trace/merged_ops.h"

namespace plimsoll {

/// Returns the trace with pairs of ops merged that `fusion_rules.pair` supports. A pair runs at the place of its second
/// op. If an op between them uses what the first writes, or writes what it reads, it runs at the place of the first, if
/// the second may move there. Buffers that no other op uses are dropped. A sum with an operand that a pointwise op
/// makes only for it is left to fuse_pointwise. `workspace` predicts the scratch of the new ops; empty: none.
///
/// Without `fusion_rules.all`, a pair is merged only if `cost` predicts less time, and live bytes exceed neither the
/// trace's peak nor their former maximum there.
Trace fuse_norms(Trace trace, const FusionRules& fusion_rules, const CostModel& cost, const WorkspaceModel& workspace,
                 const MergingParameters& limits = {});

}  // namespace plimsoll
