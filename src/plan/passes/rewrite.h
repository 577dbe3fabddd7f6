// Declares the builder of the trace that a pass returns, and the list of ops that use each buffer. Declares the pass
// that removes ops whose results no op or caller reads.
#pragma once

#include <map>
#include <set>
#include <vector>

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

/// Calls `visit(BufferId)` once for every buffer that `op` reads or writes.
template <typename Visit>
void for_each_buffer(const Op& op, const Visit& visit) {
  std::set<BufferId> seen;
  for_each_view(op, [&](const View& view, bool) {
    if (seen.insert(view.buffer).second) visit(view.buffer);
  });
}

/// Returns for each buffer the number of ops that use it. 0: callers can see it too (it is persistent, an output, or
/// has a name).
std::vector<int32_t> uses_of(const Trace& trace);

/// Returns the trace without ops that write only buffers that are neither persistent, nor outputs, nor read later. Ops
/// that draw random numbers may be removed too: every draw has its own seed. Buffers keep their ids. Update pieces,
/// which refer to ops by index, are dropped.
///
/// The pass runs before the searches, so that they do not count the cost of dead ops. It runs after update_in_backward,
/// which reads the order of ops as recorded.
Trace remove_dead_ops(Trace trace);

}  // namespace plimsoll
