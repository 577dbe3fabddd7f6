#include "plan/passes/apply_workspace_model.h"

#include "plimsoll/trace.h"

namespace plimsoll {

Trace apply_workspace_model(Trace trace, const WorkspaceModel& model) {
  for (Op& op : trace.ops)
    if (const auto bytes = model(op)) op.workspace_bytes = placed_bytes(trace, *bytes);
  return trace;
}

}  // namespace plimsoll
