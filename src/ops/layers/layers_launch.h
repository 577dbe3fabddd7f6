// Declares the CUDA launchers of the norms and of the quantized linear layer.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/kernel_arguments.h"
#include "ops/kernels_cpu.h"
#include "ops/layers/quantized_kernels_cpu.h"

// The launchers of the CUDA kernels for quantized weights, on raw device memory: no tensors, no allocation, no
// waiting.

typedef struct CUstream_st* cudaStream_t;

namespace plimsoll::cuda {

/// Quantizes all rows as ops::quantize_rows does.
void launch_quantize(const ops::ConstRows& weight, int64_t rows, int64_t width, bool four_bits, void* codes,
                     float* scales, cudaStream_t stream);

/// Quantizes scales as ops::quantize_scales does.
void launch_quantize_scales(const float* scales, int64_t count, uint8_t* codes, float* second, cudaStream_t stream);

/// Dequantizes columns [first, first + count) of the rows [begin, end) into `out`, whose first row is `begin`. `first`
/// is a multiple of the block.
void launch_dequantize(const ops::QuantizedWeight& weight, const ops::Rows& out, int64_t first, int64_t count,
                       int64_t begin, int64_t end, cudaStream_t stream);

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

/// Computes the same, and writes dx + add.a to add.sum; args.dx and add.b are not used. If `copy` has data, a float32
/// sum is also written there, in bfloat16 or float16.
void launch_rms_norm_backward_add(const ops::AddRows& add, const ops::Rows& copy, const ops::RmsNormBackward& args,
                                  DType weight_dtype, int64_t rows, void* partials, void* dweight, cudaStream_t stream);

}  // namespace plimsoll::cuda
