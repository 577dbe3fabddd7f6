// Builds the trace that a pass gives back: the old ops in order, less some, plus some.
#pragma once

#include <map>
#include <set>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Ops must be kept in their old order; segments follow. Both calls append to the new trace.
class TraceRewriter {
 public:
  /// `trace` is moved from by finish().
  explicit TraceRewriter(Trace& trace);

  /// Op `index` of the old trace comes next.
  void keep(int32_t index);
  /// Op `index` of the old trace comes next, changed.
  void replace(int32_t index, Op op);
  /// A new op comes next; it belongs to the segment of the last op kept, or of old op `near`.
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

/// The trace with some ops as part of others: those of `made` stand where the ops of these indices stood, those of
/// `gone` nowhere. `trace` is moved from.
Trace with_merged(Trace& trace, std::map<int32_t, Op> made, const std::set<int32_t>& gone);

}  // namespace plimsoll
