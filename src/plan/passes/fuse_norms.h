// Makes one op of a sum and the norm that reads it, and of a norm's backward and the sum that its gradient goes into.
//
//     s = x + r;  y, rstd = rms_norm(s)              ->   s, y, rstd        s is read while it is in the cache
//     dx, dw = rms_norm_backward(…);  g = g + dx     ->   g, dw             dx is never there as a whole
//
// Runs on a finished schedule, as fuse_pointwise and for its reasons, and before it: a sum that is taken here reads and
// writes less than in a chain, unless the chain makes what it adds.
#pragma once

#include "plimsoll/plan.h"
#include "trace/pointwise.h"

namespace plimsoll {

/// Finds pairs of ops that `fusing.pair` makes one of, and runs each where its second op stood; where something between
/// them touches what the first writes or writes what it reads, where its first stood, if the second may pass. Buffers
/// that nobody else touches are gone. A sum whose operand a pointwise op makes for it alone is left to fuse_pointwise.
/// `workspace` says what scratch the new ops take; empty: none.
///
/// Without `fusing.all` only where `cost` predicts less time for it and no more bytes are live than were, there or at
/// the trace's peak.
Trace fuse_norms(Trace trace, const Fusing& fusing, const CostModel& cost, const WorkspaceModel& workspace,
                 const MergingParameters& limits = {});

}  // namespace plimsoll
