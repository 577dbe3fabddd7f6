// Declares how often each segment of a trace runs in a step, and which segments are training.
#pragma once

#include <cstdint>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns whether a segment has the forward and the backward pass of a micro batch.
bool is_training(SegmentKind kind);

/// Returns the number of runs of a segment in a step of `micro_batches` micro batches. `ragged`: if there are several,
/// the last is the remainder.
int64_t runs_in_step(const Trace& trace, SegmentKind kind, int64_t micro_batches, bool ragged);

}  // namespace plimsoll
