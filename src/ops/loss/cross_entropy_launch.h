// Declares the CUDA launchers of the cross entropy of rows of logits.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/kernel_arguments.h"

namespace plimsoll::cuda {

/// Computes `rows` rows as cross_entropy_rows (kernels_cpu.h) does, but does not round capped logits to the logits'
/// type in between. A target that is outside [0, width) and not ignored makes its row's loss and gradients NaN; the
/// caller gets no error.
void launch_cross_entropy(const ops::CrossEntropy& args, int64_t rows, cudaStream_t stream);

/// Computes loss = the sum of `losses` (`dtype`, [tokens], float32 or float64) over the number of targets that are not
/// `ignore_index`, at least 1. That number is written to `count`, which may be null. Sums are in a fixed order, in
/// float64.
void launch_mean_loss(const void* losses, DType dtype, const int64_t* targets, int64_t target_stride,
                      int64_t ignore_index, int64_t tokens, void* loss, void* count, cudaStream_t stream);

/// Adds rows as split_add_rows (kernels_cpu.h) does, with the same bits.
void launch_split_add(const ops::SplitAdd& args, int64_t rows, cudaStream_t stream);

}  // namespace plimsoll::cuda
