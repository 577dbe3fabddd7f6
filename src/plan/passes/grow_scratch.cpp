#include <algorithm>
#include <utility>

#include "plan/passes/passes.h"
#include "plimsoll/trace.h"

namespace plimsoll {

Trace grow_scratch(Trace trace, const OpForms& forms, const WorkspaceModel& workspace, int64_t limit) {
  if (!forms || !workspace) return trace;
  const std::vector<int64_t> live = transient_bytes_by_op(trace, lifetimes_of(trace));
  const int64_t peak = live.empty() ? 0 : *std::ranges::max_element(live);
  const Segment* const evaluate = trace.segment(SegmentKind::evaluate);
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    Op& op = trace.ops[i];
    if (op.on_host) continue;
    const auto at = static_cast<int32_t>(i);
    const bool evaluates = evaluate && evaluate->begin <= at && at < evaluate->end;
    const int64_t room = (evaluates ? std::min(limit, peak) : limit) - (live[i] - op.workspace_bytes);
    for (Op& form : forms(op)) {
      const std::optional<int64_t> bytes = workspace(form);
      if (!bytes || placed_bytes(trace, *bytes) > room) continue;
      form.workspace_bytes = placed_bytes(trace, *bytes);
      op = std::move(form);
      break;
    }
  }
  return trace;
}

int64_t grown_ops_of(const Trace& before, const Trace& trace) {
  int64_t count = 0;
  for (size_t i = 0; i < trace.ops.size(); ++i) count += trace.ops[i].call != before.ops[i].call;
  return count;
}

}  // namespace plimsoll
