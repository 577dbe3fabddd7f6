// Declares the memory layout of quantized weights, and the pieces in which they are dequantized. No libtorch: the
// kernels and the estimates of their workspace (ops/workspace) must agree.
//
// A weight [rows, width] is cut along its rows into blocks of 64 (the last of a row may be shorter), each with a scale:
//
//     int8: codes int8 [rows, width]              w = code x scale, scale = largest |w| of the block / 127
//     nf4:  codes uint8 [rows, ceil(width / 2)]   w = level[code] x scale, scale = largest |w|; the even column's code
//                                                 in the low half of the byte
//     scales float32 [rows, blocks], or doubly quantized: uint8 [rows, blocks] in groups of 256 of all of them, with
//     second float32 [groups + 1]: a scale a group, and the mean that was taken off all
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/rows.h"

namespace plimsoll::ops {

constexpr int64_t kQuantizedBlock = 64;
constexpr int64_t kScaleGroup = 256;

/// Bytes of a dequantized piece of a weight, on the CPU and on a GPU. A piece must be large enough for its matmul
/// to outweigh the start of the matmul.
constexpr int64_t kQuantizedTileBytes = int64_t{4} << 20, kQuantizedGpuTileBytes = int64_t{32} << 20;

/// Maximum rows of x, or of a gradient, in one of libtorch's matmuls on the CPU. Some kernels copy their operands:
/// those of 16-bit elements do if the processor has no instructions for them. This bounds the copy.
constexpr int64_t kQuantizedProductRows = 4096;

PLIMSOLL_HOST_DEVICE int64_t quantized_blocks(int64_t width) {
  return div_up(width, kQuantizedBlock);
}

/// Returns the rows of the weight that forward dequantizes at a time.
inline int64_t quantized_tile_rows(int64_t rows, int64_t width, int64_t bytes, int64_t tile = kQuantizedTileBytes) {
  return std::clamp<int64_t>(tile / std::max<int64_t>(1, width * bytes), 1, std::max<int64_t>(1, rows));
}

/// Returns the columns of the weight that backward dequantizes at a time: whole blocks.
inline int64_t quantized_tile_columns(int64_t rows, int64_t width, int64_t bytes, int64_t tile = kQuantizedTileBytes) {
  const int64_t blocks = tile / std::max<int64_t>(1, rows * bytes * kQuantizedBlock);
  return std::clamp<int64_t>(blocks, 1, std::max<int64_t>(1, quantized_blocks(width))) * kQuantizedBlock;
}

}  // namespace plimsoll::ops
