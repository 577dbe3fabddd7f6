// Declares the pass that sets the scratch of each op for the device planned for.
//
// It runs first: every later pass and all searches count scratch among the live bytes.
#pragma once

#include "plimsoll/planner.h"

namespace plimsoll {

/// Returns the trace with `workspace_bytes` of each op from `model`. Ops that the model does not know keep theirs.
/// `model` must not be empty.
Trace apply_workspace_model(Trace trace, const WorkspaceModel& model);

}  // namespace plimsoll
