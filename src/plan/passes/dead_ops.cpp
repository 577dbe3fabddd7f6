#include "plan/passes/dead_ops.h"

#include "plan/graph/rewrite.h"

namespace plimsoll {

Trace remove_dead_ops(Trace trace) {
  trace.update_pieces.clear();
  // Goes backward: a buffer is needed from the last op that reads it up to the first that writes it. A buffer that
  // lives from one run of a segment to the next is persistent, and always needed.
  std::vector<bool> wanted(trace.buffers.size(), false), keep(trace.ops.size(), true);
  for (size_t b = 0; b < trace.buffers.size(); ++b) wanted[b] = trace.buffers[b].persistent || trace.buffers[b].output;
  for (size_t i = trace.ops.size(); i-- > 0;) {
    const Op& op = trace.ops[i];
    bool alive = false;
    for_each_view(op, [&](const View& view, bool written) { alive |= written && wanted[view.buffer]; });
    keep[i] = alive;
    if (alive) for_each_view(op, [&](const View& view, bool) { wanted[view.buffer] = true; });
  }
  TraceRewriter rewriter(trace);
  for (size_t i = 0; i < trace.ops.size(); ++i)
    if (keep[i]) rewriter.keep(static_cast<int32_t>(i));
  return rewriter.finish();
}

}  // namespace plimsoll
