// Declares fused ops on a CUDA device. Each program's kernel is compiled by NVRTC when the plan is prepared, or read
// from the cache on disk.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll::cuda {

/// Compiles and loads the kernel of `op`, which is_fused(), for the current device; does nothing if it is an operator
/// of its own. Throws UserError (failure) if there is no NVRTC or it does not know the device.
void prepare_fused(const Op& op);

}  // namespace plimsoll::cuda
