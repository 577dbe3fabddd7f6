// Implements the quantization and dequantization of weights (ops/layers/quantized_plan.h), with the CPU's bits.
#pragma once

#include "ops/device_support.cuh"
#include "ops/layers/quantized_kernels_cpu.h"
#include "ops/layers/quantized_plan.h"

namespace plimsoll::cuda {

constexpr int kBlockValues = static_cast<int>(ops::kQuantizedBlock);

/// Quantizes a block of 64 a warp, `tasks` = rows x `blocks` of a row. A lane's two values are adjacent, as are the
/// halves of a byte.
template <typename T>
__global__ void quantize_blocks(const T* weight, int64_t stride, int32_t tasks, int32_t blocks, int32_t width,
                                bool four_bits, void* codes, float* scales) {
  const int32_t bytes = width / 2 + width % 2, warps = grid_threads() / kWarp;
  for (int32_t task = grid_index() / kWarp; task < tasks; task += warps) {
    const int64_t row = task / blocks;
    const int32_t column = task % blocks * kBlockValues + static_cast<int>(threadIdx.x % kWarp) * 2;
    float values[2];
    float largest = 0;
    bool finite = true;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      values[i] = column + i < width ? static_cast<float>(widen(weight[row * stride + column + i])) : 0.0f;
      const float magnitude = fabsf(values[i]);
      finite = finite && magnitude <= 3.402823466e+38f;
      largest = magnitude > largest ? magnitude : largest;
    }
    finite = __all_sync(kAllLanes, finite) != 0;
    largest = reduce_warp<Largest>(largest);
    const float scale = !finite ? NAN : four_bits ? largest : largest / ops::kInt8Most;
    if (threadIdx.x % kWarp == 0) scales[task] = scale;
    const bool empty = !finite || scale == 0;
    // Values are divided by the block's largest, not by its scale, which may have been rounded.
    const auto share = [&](int i) { return empty ? 0.0f : values[i] / largest; };
    if (column >= width) continue;
    if (four_bits) {
      const uint8_t low = ops::nearest_nf4(share(0)), high = column + 1 < width ? ops::nearest_nf4(share(1)) : 0;
      static_cast<uint8_t*>(codes)[row * bytes + column / 2] = static_cast<uint8_t>(low | high << 4);
    } else {
      auto* to = static_cast<int8_t*>(codes) + row * width + column;
      to[0] = static_cast<int8_t>(ops::nearest_whole(share(0) * ops::kInt8Most));
      if (column + 1 < width) to[1] = static_cast<int8_t>(ops::nearest_whole(share(1) * ops::kInt8Most));
    }
  }
}

/// Computes second[groups], the mean of the finite scales, in one block of kScaleSums threads.
__global__ void mean_of_scales(const float* scales, int32_t count, float* second) {
  __shared__ double sums[ops::kScaleSums];
  __shared__ long long finite[ops::kScaleSums];
  double sum = 0;
  long long there = 0;
  for (int32_t i = threadIdx.x; i < count; i += static_cast<int>(ops::kScaleSums)) {
    if (!(fabsf(scales[i]) <= 3.402823466e+38f)) continue;
    sum += scales[i];
    ++there;
  }
  sums[threadIdx.x] = sum;
  finite[threadIdx.x] = there;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = 0;
  long long number = 0;
  for (int i = 0; i < ops::kScaleSums; ++i) {
    total += sums[i];
    number += finite[i];
  }
  second[ops::div_up(count, ops::kScaleGroup)] =
      number > 0 ? static_cast<float>(total / static_cast<double>(number)) : 0.0f;
}

/// Quantizes one group a block and one scale a thread.
__global__ void quantize_scale_groups(const float* scales, int32_t count, uint8_t* codes, float* second) {
  const float mean = second[ops::div_up(count, ops::kScaleGroup)];
  const auto i = static_cast<int32_t>(blockIdx.x * static_cast<unsigned>(ops::kScaleGroup) + threadIdx.x);
  const float apart = i < count ? fabsf(scales[i] - mean) : 0.0f;
  // The largest of values that include a NaN is undefined, so a separate sum checks for one.
  const bool finite = reduce_block<Sum>(apart <= 3.402823466e+38f ? 0 : 1) == 0;
  const float largest = reduce_block<Largest>(apart);
  const float scale = finite ? largest / ops::kInt8Most : NAN;
  if (threadIdx.x == 0) second[blockIdx.x] = scale;
  if (i < count) codes[i] = ops::double_scale_code(scales[i], scale, mean, finite);
}

/// Writes the levels to shared memory, because each lane reads a different level.
__device__ inline void fill_levels(float* levels) {
  if (threadIdx.x == 0)
    for (int code = 0; code < 16; ++code) levels[code] = ops::nf4_level(code);
  __syncthreads();
}

__device__ inline float scale_of(const ops::QuantizedWeight& weight, int64_t index) {
  if (weight.second == nullptr) return static_cast<const float*>(weight.scales)[index];
  const int64_t groups = ops::div_up(weight.rows * ops::quantized_blocks(weight.width), ops::kScaleGroup);
  return ops::double_scale(static_cast<const uint8_t*>(weight.scales)[index], weight.second[index / ops::kScaleGroup],
                           weight.second[groups]);
}

/// Dequantizes eight values a thread, contiguous in one block of a row. `packed`: codes and results are aligned for
/// this and rows have a multiple of eight values. `tasks`: rows x `pieces` of a row.
template <typename T, bool four_bits>
__global__ void dequantize_pieces(ops::QuantizedWeight weight, T* out, int64_t stride, int32_t first, int32_t count,
                                  int32_t begin, int32_t pieces, int32_t tasks, bool packed) {
  constexpr int kNumbers = 8;
  __shared__ float levels[16];
  if (four_bits) fill_levels(levels);
  const auto width = static_cast<int32_t>(weight.width);
  const int32_t blocks = (width + kBlockValues - 1) / kBlockValues, bytes = width / 2 + width % 2;
  for (int32_t task = grid_index(); task < tasks; task += grid_threads()) {
    const int32_t of_out = task / pieces, at = task % pieces * kNumbers, column = first + at;
    const int64_t row = begin + of_out;
    const float scale = scale_of(weight, row * blocks + column / kBlockValues);
    T* to = out + of_out * stride + at;
    const auto number = [&](int32_t code) {
      return narrow<T>(static_cast<Accumulate<T>>((four_bits ? levels[code] : static_cast<float>(code)) * scale));
    };
    if (packed) {
      Pack<T, kNumbers> numbers;
      if constexpr (four_bits) {
        const auto codes = load_pack<4>(static_cast<const uint8_t*>(weight.codes) + row * bytes + column / 2);
#pragma unroll
        for (int i = 0; i < kNumbers; ++i) numbers[i] = number((codes[i / 2] >> (i % 2 * 4)) & 15);
      } else {
        const auto codes = load_pack<8>(static_cast<const int8_t*>(weight.codes) + row * width + column);
#pragma unroll
        for (int i = 0; i < kNumbers; ++i) numbers[i] = number(codes[i]);
      }
      store_pack(to, numbers);
      continue;
    }
    const int left = count - at < kNumbers ? count - at : kNumbers;
    for (int i = 0; i < left; ++i) {
      if constexpr (four_bits)
        to[i] = number((static_cast<const uint8_t*>(weight.codes)[row * bytes + (column + i) / 2] >> (i % 2 * 4)) & 15);
      else
        to[i] = number(static_cast<const int8_t*>(weight.codes)[row * width + column + i]);
    }
  }
}

}  // namespace plimsoll::cuda
