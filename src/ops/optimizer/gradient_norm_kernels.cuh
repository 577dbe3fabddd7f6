// Implements the sum of the squares of a gradient's elements: one block a piece, then one block for the sums of pieces.
#pragma once

#include "ops/device_support.cuh"
#include "ops/optimizer/gradient_norm_launch.h"

namespace plimsoll::cuda {

constexpr int kSumThreads = 256;

/// Computes partials[b] = the sum of squares over the elements [b * piece, (b + 1) * piece). Squares of one pack are
/// added in float32 if they stay in its range, packs in float64. Elements behind the last one count as zeros.
template <typename T, int pack>
__global__ void __launch_bounds__(kSumThreads)
    sum_squares(const T* data, int64_t count, int64_t piece, double* partials) {
  const int64_t begin = blockIdx.x * piece, end = begin + piece < count ? begin + piece : count;
  double total = 0;
  for (int64_t i = begin + int64_t{threadIdx.x} * pack; i < end; i += int64_t{kSumThreads} * pack) {
    Accumulate<T> wide[pack];
    if (i + pack <= end) {
      const auto values = load_pack<pack>(data + i);
#pragma unroll
      for (int j = 0; j < pack; ++j) wide[j] = widen(values[j]);
    } else {
      for (int j = 0; j < pack; ++j) wide[j] = i + j < end ? widen(data[i + j]) : Accumulate<T>(0);
    }
    Accumulate<T> squares = 0;
#pragma unroll
    for (int j = 0; j < pack; ++j) squares += wide[j] * wide[j];
    auto sum = static_cast<double>(squares);
    // Squares in float32 overflow from elements of 2e19 on, and lose digits below 1e-15.
    if (!(sum < 1e37) || sum < 1e-25) {
      sum = 0;
      for (int j = 0; j < pack; ++j) sum += static_cast<double>(wide[j]) * static_cast<double>(wide[j]);
    }
    total += sum;
  }
  total = reduce_block<Sum>(total);
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

/// Computes the norm from the sums of blocks `sum_of(i)`, i below `count`; thread 0 writes it. All threads of a block
/// call.
template <typename SumOf>
__device__ void take_norm(const SumOf& sum_of, int64_t count, float* norm, float* skipped) {
  double total = 0;
  for (int64_t i = threadIdx.x; i < count; i += kSumThreads) total += sum_of(i);
  total = reduce_block<Sum>(total);
  if (threadIdx.x != 0) return;
  const float result = static_cast<float>(sqrt(total));
  *norm = result;
  if (!(result <= 3.402823466e+38f)) *skipped = 1;  // infinite, or NaN
}

static __global__ void __launch_bounds__(kSumThreads)
    finish_norm(const double* partials, int64_t count, float* norm, float* skipped) {
  take_norm([partials](int64_t i) { return partials[i]; }, count, norm, skipped);
}

/// Computes the norm of gradient g in block g. Its sums are those of rank 0, then of rank 1 and so on, in
/// finish_norm()'s order for a whole gradient. The sums of the padding at the end are zeros.
static __global__ void __launch_bounds__(kSumThreads)
    finish_norms(const double* sums, int64_t ranks, int64_t of_rank, BlocksOfGradients of, float* norms, int64_t stride,
                 float* skipped) {
  const int64_t blocks = of.blocks[blockIdx.x];
  const double* const first = sums + of.first[blockIdx.x];
  take_norm([=](int64_t i) { return first[i / blocks * of_rank + i % blocks]; }, ranks * blocks,
            norms + of.index[blockIdx.x] * stride, skipped);
}

}  // namespace plimsoll::cuda
