// Cross entropy of rows of logits on a CUDA device: launchers.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/kernel_arguments.h"

namespace plimsoll::cuda {

/// As cross_entropy_rows (kernels_cpu.h) for `rows` rows, but capped logits are not rounded to the logits' type in
/// between. A target that is outside [0, width) and not ignored makes its row's loss and gradients NaN: whoever
/// launches this is not told.
void launch_cross_entropy(const ops::CrossEntropy& args, int64_t rows, cudaStream_t stream);

/// loss = the sum of `losses` (`dtype`, [tokens], of float32 or float64) over the number of targets that are not
/// `ignore_index`, at least 1; that number goes to `count`, which may be null. In a fixed order, in float64.
void launch_mean_loss(const void* losses, DType dtype, const int64_t* targets, int64_t target_stride,
                      int64_t ignore_index, int64_t tokens, void* loss, void* count, cudaStream_t stream);

/// As split_add_rows (kernels_cpu.h): bit by bit.
void launch_split_add(const ops::SplitAdd& args, int64_t rows, cudaStream_t stream);

}  // namespace plimsoll::cuda
