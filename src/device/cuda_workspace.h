// Declares the scratch that CUDA kernels allocate, by rule, for plans made without a device to measure it on.
#pragma once

#include "plimsoll/planner.h"

namespace plimsoll {

/// Returns the model. Operators without a rule give nullopt: their scratch is measured on a device. `multiprocessors`
/// of the device determine the scratch of attention; 0: not known, the largest number of any device.
WorkspaceModel cuda_workspace_model(int multiprocessors = 0);

}  // namespace plimsoll
