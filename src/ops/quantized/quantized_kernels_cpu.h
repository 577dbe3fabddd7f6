// Quantising rows of a weight and taking them apart: no tensors, no allocation, no threads.
#pragma once

#include <cstdint>

#include "ops/kernels_cpu.h"

namespace plimsoll::ops {

/// A quantised weight, laid out as data says in ops/quantized/quantized_plan.h.
struct QuantizedWeight {
  const void* codes = nullptr;   ///< int8, or two 4-bit codes a byte
  const void* scales = nullptr;  ///< float32, or uint8 where `second` is given
  const float* second = nullptr;
  int64_t rows = 0, width = 0;
  bool four_bits = false;
};

/// Columns [first, first + count) of the rows [begin, end) into the rows [begin, end) of `out`. `first` is a multiple
/// of the block. Products of code and scale are taken in float32 and rounded once to out's type.
void dequantize_rows(const QuantizedWeight& weight, const Rows& out, int64_t first, int64_t count, int64_t begin,
                     int64_t end);

/// Quantises the rows [begin, end) of `weight` [rows, width]: the nearest level of each block's scale. A block that
/// holds a number that is not finite becomes NaN.
void quantize_rows(const ConstRows& weight, int64_t width, bool four_bits, void* codes, float* scales, int64_t begin,
                   int64_t end);

/// Scales of a weight, `count` of them, in 8 bits; `second` has one a group and the mean. A group with a
/// scale that is not finite becomes NaN.
void quantize_scales(const float* scales, int64_t count, uint8_t* codes, float* second);

}  // namespace plimsoll::ops
