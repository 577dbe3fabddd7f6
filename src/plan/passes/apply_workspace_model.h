// Sets the scratch of each op to what the device planned for needs.
//
// Runs first: every later pass and both searches count scratch among the live bytes.
#pragma once

#include "plimsoll/plan.h"

namespace plimsoll {

/// The trace with `workspace_bytes` of each op as `model` says; ops that the model does not know keep theirs. `model`
/// is not empty.
Trace apply_workspace_model(Trace trace, const WorkspaceModel& model);

}  // namespace plimsoll
