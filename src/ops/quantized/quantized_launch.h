// Declares the launchers of the CUDA kernels for quantized weights, on raw device memory: no tensors, no allocation, no
// waiting.
#pragma once

#include "ops/quantized/quantized_kernels_cpu.h"

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

}  // namespace plimsoll::cuda
