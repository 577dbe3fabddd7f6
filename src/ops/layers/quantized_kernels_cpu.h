// Declares the kernels that quantize and dequantize rows of a weight: no tensors, no allocation, no threads.
#pragma once

#include <cstdint>

#include "ops/kernels_cpu.h"

namespace plimsoll::ops {

/// A quantized weight, in the layout of ops/quantized/quantized_plan.h.
struct QuantizedWeight {
  const void* codes = nullptr;   ///< int8, or two 4-bit codes a byte
  const void* scales = nullptr;  ///< float32, or uint8 with `second`
  const float* second = nullptr;
  int64_t rows = 0, width = 0;
  bool four_bits = false;
};

/// Dequantizes columns [first, first + count) of the rows [begin, end) into the rows [begin, end) of `out`. `first` is
/// a multiple of the block. Products of code and scale are computed in float32 and rounded once to out's type.
void dequantize_rows(const QuantizedWeight& weight, const Rows& out, int64_t first, int64_t count, int64_t begin,
                     int64_t end);

/// Quantizes the rows [begin, end) of `weight` [rows, width] to the nearest level of each block's scale. A block that
/// holds a value that is not finite becomes NaN.
void quantize_rows(const ConstRows& weight, int64_t width, bool four_bits, void* codes, float* scales, int64_t begin,
                   int64_t end);

/// Quantizes `count` scales of a weight to 8 bits; `second` receives one scale a group and the mean. A group with a
/// scale that is not finite becomes NaN.
void quantize_scales(const float* scales, int64_t count, uint8_t* codes, float* second);

}  // namespace plimsoll::ops
