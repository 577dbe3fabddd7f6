// Rotary position embedding on a CUDA device: launcher.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/kernel_arguments.h"

namespace plimsoll::cuda {

/// As rope_tokens (kernels_cpu.h) for all tokens. `args.frequencies` lies on the host: it travels with the launch.
void launch_rope(const ops::Rope& args, cudaStream_t stream);

}  // namespace plimsoll::cuda
