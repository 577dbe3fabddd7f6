// The norm of a gradient on a CUDA device: launcher.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "plimsoll/trace.h"

namespace plimsoll::cuda {

/// norm[0] = the 2-norm of `count` elements; skipped[0] = 1 if that is not finite. `partials`: float64, one for each
/// kCudaNormBlock elements begun. Always in the same order, which is not the CPU's.
void launch_gradient_norm(const void* data, DType dtype, int64_t count, double* partials, float* norm, float* skipped,
                          cudaStream_t stream);

/// partials[b] = the sum of the squares of the elements [b * kCudaNormBlock, (b + 1) * kCudaNormBlock), for all blocks
/// of `count` elements. Zeros behind the last element do not change a bit of it.
void launch_block_sums(const void* data, DType dtype, int64_t count, double* partials, cudaStream_t stream);

/// Gradients whose norms one launch takes.
constexpr int kNormsOfLaunch = 64;

/// Where the sums of some gradients' blocks are: the sums of gradient i are blocks[i] of each rank, from first[i] on.
struct BlocksOfGradients {
  int64_t index[kNormsOfLaunch], first[kNormsOfLaunch], blocks[kNormsOfLaunch];
};

/// norms[index[i] * stride] = the norm of gradient i of `gradients` (at most kNormsOfLaunch), with the bits of
/// launch_gradient_norm() for the whole gradient; skipped[0] = 1 if one is not finite. `sums`: float64, `of_rank` of
/// each of `ranks` ranks.
void launch_norms_of_blocks(const double* sums, int64_t ranks, int64_t of_rank, const BlocksOfGradients& of,
                            int gradients, float* norms, int64_t stride, float* skipped, cudaStream_t stream);

}  // namespace plimsoll::cuda
