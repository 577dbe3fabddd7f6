// What scratch CPU kernels take, by rule: operators of our own state theirs, libtorch's are known where their source
// says it.
#pragma once

#include "plimsoll/plan.h"

namespace plimsoll {

/// For `threads` CPU threads of this machine: products that our operators leave to libtorch are run once, to see what
/// they take. Operators without a rule give nullopt: their scratch is learned on the first step.
WorkspaceModel cpu_workspace_model(int threads);

}  // namespace plimsoll
