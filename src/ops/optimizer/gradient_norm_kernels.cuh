// The sum of the squares of a gradient's elements: a block a piece, then one block over the pieces.
#pragma once

#include "ops/device_support.cuh"

namespace plimsoll::cuda {

constexpr int kSumThreads = 256;

/// partials[b] = the sum over the elements [b * piece, (b + 1) * piece). Squares of one pack are added in float32 while
/// they stay in its range, packs in float64.
template <typename T, int pack>
__global__ void __launch_bounds__(kSumThreads)
    sum_squares(const T* data, int64_t count, int64_t piece, double* partials) {
  const int64_t begin = blockIdx.x * piece, end = begin + piece < count ? begin + piece : count;
  double total = 0;
  int64_t i = begin + int64_t{threadIdx.x} * pack;
  for (; i + pack <= end; i += int64_t{kSumThreads} * pack) {
    const auto values = load_pack<pack>(data + i);
    Accumulate<T> squares = 0;
#pragma unroll
    for (int j = 0; j < pack; ++j) squares += widen(values[j]) * widen(values[j]);
    auto sum = static_cast<double>(squares);
    // Squares in float32 overflow from elements of 2e19 on, and lose digits below 1e-15.
    if (!(sum < 1e37) || sum < 1e-25) {
      sum = 0;
      for (int j = 0; j < pack; ++j)
        sum += static_cast<double>(widen(values[j])) * static_cast<double>(widen(values[j]));
    }
    total += sum;
  }
  for (; i < end; ++i) {  // of one thread at the most
    const auto value = static_cast<double>(widen(data[i]));
    total += value * value;
  }
  total = reduce_block<Sum>(total);
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

static __global__ void __launch_bounds__(kSumThreads)
    finish_norm(const double* partials, int64_t count, float* norm, float* skipped) {
  double total = 0;
  for (int64_t i = threadIdx.x; i < count; i += kSumThreads) total += partials[i];
  total = reduce_block<Sum>(total);
  if (threadIdx.x != 0) return;
  const float result = static_cast<float>(sqrt(total));
  *norm = result;
  if (!(result <= 3.402823466e+38f)) *skipped = 1;  // infinite, or not a number
}

}  // namespace plimsoll::cuda
