// Declares questions about a trace: how often each segment runs in a step, the bytes between a view's first and last
// element, and the comparison of two traces.
#pragma once

#include <cstdint>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns whether two traces have the same buffers, ops, segments, names and constants. An op's call counts only as
/// present or absent, because a pass that merges ops makes a new object each time. Update pieces are ignored: they
/// describe the recorded segment `update`.
bool same_trace(const Trace& a, const Trace& b);

/// Returns whether a segment has the forward and the backward pass of a micro batch.
bool is_training(SegmentKind kind);

/// Returns the number of runs of a segment in a step of `micro_batches` micro batches. `ragged`: if there are several,
/// the last is the remainder.
int64_t runs_in_step(const Trace& trace, SegmentKind kind, int64_t micro_batches, bool ragged);

/// A half-open range of bytes, [begin, end), counted from the buffer's start.
struct ByteRange {
  int64_t begin = 0, end = 0;
};

/// Returns the range from a view's first element to its last, gaps included; empty if the view has no elements.
inline ByteRange byte_range(const View& view) {
  if (view.elements() == 0) return {};
  int64_t last = view.offset;
  for (size_t d = 0; d < view.sizes.size(); ++d) last += (view.sizes[d] - 1) * view.strides[d];
  return {view.offset * element_bytes(view.dtype), (last + 1) * element_bytes(view.dtype)};
}

}  // namespace plimsoll
