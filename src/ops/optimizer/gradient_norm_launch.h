// Declares the CUDA launchers of the norm of a gradient.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "plimsoll/trace.h"

namespace plimsoll::cuda {

/// Computes norm[0] = the 2-norm of `count` elements, and skipped[0] = 1 if it is not finite. `partials`: float64,
/// ceil(count / kCudaNormBlock) elements. The order of sums is always the same, and differs from the CPU's.
void launch_gradient_norm(const void* data, DType dtype, int64_t count, double* partials, float* norm, float* skipped,
                          cudaStream_t stream);

/// Computes partials[b] = the sum of the squares of the elements [b * kCudaNormBlock, (b + 1) * kCudaNormBlock), for
/// all blocks of `count` elements. Zeros after the last element change no bit of it.
void launch_block_sums(const void* data, DType dtype, int64_t count, double* partials, cudaStream_t stream);

/// Maximum number of gradients whose norms one launch computes.
constexpr int kNormsOfLaunch = 64;

/// The positions of some gradients' block sums: gradient i has blocks[i] sums of each rank, from first[i] on.
struct BlocksOfGradients {
  int64_t index[kNormsOfLaunch], first[kNormsOfLaunch], blocks[kNormsOfLaunch];
};

/// Computes norms[index[i] * stride] = the norm of gradient i of `gradients` (at most kNormsOfLaunch), with the bits of
/// launch_gradient_norm() for the whole gradient. Sets skipped[0] = 1 if one is not finite. `sums`: float64, `of_rank`
/// of each of `ranks` ranks.
void launch_norms_of_blocks(const double* sums, int64_t ranks, int64_t of_rank, const BlocksOfGradients& of,
                            int gradients, float* norms, int64_t stride, float* skipped, cudaStream_t stream);

}  // namespace plimsoll::cuda
