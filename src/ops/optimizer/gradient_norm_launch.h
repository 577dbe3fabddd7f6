// The norm of a gradient on a CUDA device: launcher.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "plimsoll/dtype.h"

namespace plimsoll::cuda {

/// norm[0] = the 2-norm of `count` elements; skipped[0] = 1 if that is not finite. `partials`: float64, one for each
/// kCudaNormBlock elements begun. Always in the same order, which is not the CPU's.
void launch_gradient_norm(const void* data, DType dtype, int64_t count, double* partials, float* norm, float* skipped,
                          cudaStream_t stream);

}  // namespace plimsoll::cuda
