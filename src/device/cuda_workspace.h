// What scratch CUDA kernels take, by rule: for plans that are made where there is no device to try them on.
#pragma once

#include "plimsoll/plan.h"

namespace plimsoll {

/// Operators without a rule give nullopt: their scratch is learned where there is a device. `multiprocessors`: of the
/// device, on which the scratch of attention depends; 0: not known, as many as any has.
WorkspaceModel cuda_workspace_model(int multiprocessors = 0);

}  // namespace plimsoll
