// Root mean square normalisation on a CUDA device: launchers.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/kernel_arguments.h"
#include "ops/layers/add_rows.h"

namespace plimsoll::cuda {

/// y = x rstd weight and rstd = 1 / sqrt(mean(x^2) + eps) of `rows` rows. The weight is [width] of `weight_dtype`,
/// side by side. Sums of squares are taken in another order than on the CPU.
void launch_rms_norm(const ops::RmsNorm& args, DType weight_dtype, int64_t rows, cudaStream_t stream);

/// The same of args.x = add.a + add.b, which is written to add.sum on the way; args.x itself is not read.
void launch_add_rms_norm(const ops::AddRows& add, const ops::RmsNorm& args, DType weight_dtype, int64_t rows,
                         cudaStream_t stream);

/// dx, and the gradient of the weight, [width] of `weight_dtype`, through `partials`: accumulator
/// [ceil(rows / cuda_norm_block_rows(rows)), width]. Always in the same order.
void launch_rms_norm_backward(const ops::RmsNormBackward& args, DType weight_dtype, int64_t rows, void* partials,
                              void* dweight, cudaStream_t stream);

/// The same with dx added to add.a on its way to add.sum; args.dx and add.b are not used.
void launch_rms_norm_backward_add(const ops::AddRows& add, const ops::RmsNormBackward& args, DType weight_dtype,
                                  int64_t rows, void* partials, void* dweight, cudaStream_t stream);

}  // namespace plimsoll::cuda
