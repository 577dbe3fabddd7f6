// What scratch CUDA kernels take, by rule: for plans that are made where there is no device to try them on.
#pragma once

#include "plimsoll/plan.h"

namespace plimsoll {

/// Operators without a rule give nullopt: their scratch is learned where there is a device.
WorkspaceModel cuda_workspace_model();

}  // namespace plimsoll
