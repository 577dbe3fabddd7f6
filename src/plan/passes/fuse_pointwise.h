// Makes one op of chains of pointwise ops.
//
// Runs on a finished schedule, just before placement. Not earlier: recomputation and offload choose value by value, and
// what is saved for backward must stay a value of its own; and what is run again in backward can be fused with what
// reads it. Not later: placement is for the buffers that are left.
#pragma once

#include "plimsoll/cost_model.h"
#include "plimsoll/plan.h"
#include "plimsoll/trace.h"
#include "trace/pointwise.h"

namespace plimsoll {

/// Finds ops that go through the same elements one after the other (`fusing.translate`), each reading what another
/// writes or what another reads, and runs them as one where the last of them stood. Nothing that lies between may
/// touch what they write or write what they read. Buffers that nobody else touches are gone, and so is the scratch of
/// casts. A fused op is called "fused: mul, add".
///
/// Without `fusing.all` only where `cost` predicts less time for it and no more bytes are live than were, there or at
/// the trace's peak.
Trace fuse_pointwise(Trace trace, const Fusing& fusing, const CostModel& cost, const MergingParameters& limits = {});

/// Ops that were recorded and run within others.
int64_t fused_ops_of(const Trace& trace);

}  // namespace plimsoll
