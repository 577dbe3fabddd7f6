// Declares the codes of quantized weights, and how the quantized linear layer cuts its work into blocks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/host_device.h"
#include "ops/rows.h"

namespace plimsoll::ops {

// The arithmetic of one value and one scale of a quantized weight (quantized_plan.h). The CPU's loops and
// the GPU kernels share it and produce the same bits.

constexpr float kInt8Most = 127.0F;
constexpr float kScaleCenter = 128.0F;  ///< zero point of a doubly quantized scale

/// Returns a level of NormalFloat4: quantiles of a normal distribution, scaled to [-1, 1], with an exact zero (QLoRA,
/// appendix E).
PLIMSOLL_HOST_DEVICE constexpr float nf4_level(int code) {
  constexpr float kLevels[16] = {-1.0F,
                                 -0.6961928009986877F,
                                 -0.5250730514526367F,
                                 -0.39491748809814453F,
                                 -0.28444138169288635F,
                                 -0.18477343022823334F,
                                 -0.09105003625154495F,
                                 0.0F,
                                 0.07958029955625534F,
                                 0.16093020141124725F,
                                 0.24611230194568634F,
                                 0.33791524171829224F,
                                 0.44070982933044434F,
                                 0.5626170039176941F,
                                 0.7229568362236023F,
                                 1.0F};
  return kLevels[code];
}

/// Returns the code of the level nearest to `value` in [-1, 1]; of two equally near levels, the lower one.
PLIMSOLL_HOST_DEVICE uint8_t nearest_nf4(float value) {
  int above = 0;  // the lowest level that is at least `value`
  PLIMSOLL_UNROLL(15)
  for (int code = 0; code < 15; ++code) above += nf4_level(code) < value ? 1 : 0;
  if (above == 0) return 0;
  const bool below_is_nearer = value - nf4_level(above - 1) <= nf4_level(above) - value;
  return static_cast<uint8_t>(below_is_nearer ? above - 1 : above);
}

/// Rounds to the nearest whole number, ties to even. Magnitudes are below 2^22.
PLIMSOLL_HOST_DEVICE int32_t nearest_whole(float x) {
#ifdef __CUDA_ARCH__
  return __float2int_rn(x);
#else
  return static_cast<int32_t>(std::lrintf(x));
#endif
}

/// Returns a doubly quantized scale from its code, its group's scale and the mean that was subtracted.
PLIMSOLL_HOST_DEVICE float double_scale(uint8_t code, float of_group, float mean) {
  using Exact = Unfused<float>;
  return (Exact(static_cast<float>(code) - kScaleCenter) * Exact(of_group) + Exact(mean)).value;
}
/// Returns the code of a doubly quantized scale; `finite`: the group is finite.
PLIMSOLL_HOST_DEVICE uint8_t double_scale_code(float scale, float of_group, float mean, bool finite) {
  const float code = finite && of_group > 0 ? (scale - mean) / of_group : 0.0F;
  const float inside = code < -kInt8Most ? -kInt8Most : code > kInt8Most ? kInt8Most : code;
  return static_cast<uint8_t>(nearest_whole(inside) + 128);
}

/// The number of partial sums of the mean of scales. Each adds every kScaleSums-th scale; they are added in order.
constexpr int64_t kScaleSums = 256;

// The memory layout of quantized weights, and the pieces in which they are dequantized. No libtorch: the
// kernels and the estimates of their workspace (ops/workspace) must agree.

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
