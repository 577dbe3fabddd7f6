// Declares the CUDA launcher of rotary position embedding.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/kernel_arguments.h"

namespace plimsoll::cuda {

/// Rotates all tokens as rope_tokens (kernels_cpu.h) does. `args.frequencies` is in host memory: it is copied into the
/// launch's arguments.
void launch_rope(const ops::Rope& args, cudaStream_t stream);

}  // namespace plimsoll::cuda
