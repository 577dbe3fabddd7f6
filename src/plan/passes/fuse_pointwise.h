// Declares the pass that merges chains of pointwise ops into one op.
//
// It runs on a finished schedule, just before placement. It must not run earlier: recomputation and offload choose
// value by value, and saved values must stay separate; recomputed ops in backward can then be fused with their readers.
// It must not run later: placement is for the remaining buffers.
#pragma once

#include "plimsoll/cost_model.h"
#include "plimsoll/planner.h"
#include "plimsoll/trace.h"
#include "trace/merged_ops.h"

namespace plimsoll {

/// Returns the trace with chains of pointwise ops (`fusion_rules.translate`) merged. The ops of a chain visit the same
/// elements in order, and each reads what another writes or reads. The merged op runs at the place of the last one. No
/// op between may use what they write or write what they read. Buffers that no other op uses are dropped, and so is the
/// scratch of casts. A fused op is named "fused: mul, add".
///
/// Without `fusion_rules.all`, a chain is merged only if `cost` predicts less time, and live bytes exceed neither the
/// trace's peak nor their former maximum there.
Trace fuse_pointwise(Trace trace, const FusionRules& fusion_rules, const CostModel& cost,
                     const MergingParameters& limits = {});

/// Returns the number of recorded ops that run within others.
int64_t fused_ops_of(const Trace& trace);

}  // namespace plimsoll
