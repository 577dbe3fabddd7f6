// Declares the builder of the trace that a pass returns: the old ops in order, without some, with others added.
#pragma once

#include <map>
#include <set>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Replaces the buffers of the operands of `op` by replacement(buffer, written), in order. Absent operands stay.
template <typename Replacement>
void replace_buffers(Op& op, const Replacement& replacement) {
  for (Argument& argument : op.arguments)
    for (View& view : argument.views)
      if (view.buffer != kNoBuffer) view.buffer = replacement(view.buffer, argument.written);
  for (View& view : op.results)
    if (view.buffer != kNoBuffer) view.buffer = replacement(view.buffer, true);
}

/// A builder of a new trace. Ops keep their old order, and segments follow. keep(), replace() and insert() append to
/// the new trace.
class TraceRewriter {
 public:
  /// Keeps a reference to `trace`; finish() moves from it.
  explicit TraceRewriter(Trace& trace);

  /// Appends op `index` of the old trace.
  void keep(int32_t index);
  /// Appends `op` instead of op `index` of the old trace.
  void replace(int32_t index, Op op);
  /// Appends a new op to the segment of the last op kept, or of old op `near`.
  void insert(Op op, int32_t near);
  BufferId add_buffer(Buffer buffer);
  Trace finish();

 private:
  void advance_to(int32_t index);

  Trace& trace_;
  std::vector<Op> ops_;
  std::vector<Segment> segments_;
  size_t segment_ = 0;
};

/// Returns the trace with some ops merged into others. Each op of `made` replaces the old op with its index; ops in
/// `gone` are dropped. `trace` is moved from.
Trace with_merged(Trace& trace, std::map<int32_t, Op> made, const std::set<int32_t>& gone);

}  // namespace plimsoll
