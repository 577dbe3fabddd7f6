// Declares the CUDA launchers of root mean square normalization.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/kernel_arguments.h"
#include "ops/layers/add_rows.h"

namespace plimsoll::cuda {

/// Computes y = x rstd weight and rstd = 1 / sqrt(mean(x^2) + eps) of `rows` rows; rstd = 1 for a row of zeros. The
/// weight is [width] of `weight_dtype`, contiguous. Sums of squares are taken in another order than on the CPU.
void launch_rms_norm(const ops::RmsNorm& args, DType weight_dtype, int64_t rows, cudaStream_t stream);

/// Computes the same of args.x = add.a + add.b, and also writes that sum to add.sum; args.x itself is not read.
void launch_add_rms_norm(const ops::AddRows& add, const ops::RmsNorm& args, DType weight_dtype, int64_t rows,
                         cudaStream_t stream);

/// Computes dx, and the gradient of the weight, [width] of `weight_dtype`. `partials` is scratch, accumulator
/// [ceil(rows / cuda_norm_block_rows(rows)), width]. The order of sums is always the same.
void launch_rms_norm_backward(const ops::RmsNormBackward& args, DType weight_dtype, int64_t rows, void* partials,
                              void* dweight, cudaStream_t stream);

/// Computes the same, and writes dx + add.a to add.sum; args.dx and add.b are not used.
void launch_rms_norm_backward_add(const ops::AddRows& add, const ops::RmsNormBackward& args, DType weight_dtype,
                                  int64_t rows, void* partials, void* dweight, cudaStream_t stream);

}  // namespace plimsoll::cuda
