// Root mean square normalisation: a warp a row where rows are narrow, else a block a row. A row is read from memory
// once; its second reading comes from the cache.
#pragma once

#include "ops/cuda/device_support.cuh"
#include "plimsoll/dtype.h"

namespace plimsoll::cuda {

/// Element i of the weight, in whatever type it is stored: all threads take the same branch.
template <int pack, typename Wide>
__device__ inline Pack<Wide, pack> load_weight(const void* weight, DType dtype, int64_t i) {
  Pack<Wide, pack> wide;
  if constexpr (sizeof(Wide) == 4) {
    if (dtype == DType::bfloat16) {
      const auto narrow = load_pack<pack>(static_cast<const bfloat16*>(weight) + i);
      for (int j = 0; j < pack; ++j) wide[j] = widen(narrow[j]);
      return wide;
    }
    if (dtype == DType::float16) {
      const auto narrow = load_pack<pack>(static_cast<const float16*>(weight) + i);
      for (int j = 0; j < pack; ++j) wide[j] = widen(narrow[j]);
      return wide;
    }
  }
  return load_pack<pack>(static_cast<const Wide*>(weight) + i);
}

/// The sum over the threads that share a row.
template <bool by_warp, typename T>
__device__ inline T sum_of_row(T value) {
  if constexpr (by_warp)
    return reduce_warp<Sum>(value);
  else
    return reduce_block<Sum>(value);
}

template <typename X, typename Y, int pack, bool by_warp>
__global__ void __launch_bounds__(1024)
    rms_norm(const X* x, int64_t x_stride, Y* y, int64_t y_stride, const void* weight, DType weight_dtype,
             Accumulate<X>* rstd, int64_t rows, int64_t width, Accumulate<X> eps) {
  using A = Accumulate<X>;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // a whole warp, or a whole block
  const X* from = x + row * x_stride;
  Y* to = y + row * y_stride;
  const int64_t first = int64_t{threadIdx.x} * pack, step = int64_t{blockDim.x} * pack;
  A squares = 0;
  for (int64_t i = first; i < width; i += step) {
    const auto values = load_pack<pack>(from + i);
#pragma unroll
    for (int j = 0; j < pack; ++j) squares += widen(values[j]) * widen(values[j]);
  }
  const A mean = sum_of_row<by_warp>(squares) / static_cast<A>(width);
  const A scale = 1 / square_root(mean + eps);
  if (threadIdx.x == 0) rstd[row] = scale;
  for (int64_t i = first; i < width; i += step) {
    const auto values = load_pack<pack>(from + i);
    const auto weights = load_weight<pack, A>(weight, weight_dtype, i);
    Pack<Y, pack> result;
#pragma unroll
    for (int j = 0; j < pack; ++j) result[j] = narrow<Y>(widen(values[j]) * scale * weights[j]);
    store_pack(to + i, result);
  }
}

/// Block b takes the rows [b * block_rows, (b + 1) * block_rows), and leaves its sums of grad_y x rstd in row b of
/// `partials`. While it adds them up they lie in shared memory, a row for each of its warps (by_warp) or for the block;
/// or, where that has no room (`in_shared` false, by block only), in `partials` itself. Each thread has columns of its
/// own.
template <typename X, typename Y, int pack, bool by_warp>
__global__ void __launch_bounds__(1024)
    rms_norm_backward(const Y* grad_y, int64_t grad_stride, const X* x, int64_t x_stride, X* dx, int64_t dx_stride,
                      const void* weight, DType weight_dtype, const Accumulate<X>* rstd, int64_t rows, int64_t width,
                      int64_t block_rows, Accumulate<X>* partials, bool in_shared) {
  using A = Accumulate<X>;
  PLIMSOLL_DYNAMIC_SHARED(A, shared);
  A* const partial = partials + blockIdx.x * width;
  A* const sums = in_shared ? shared + threadIdx.y * width : partial;
  const int64_t first = int64_t{threadIdx.x} * pack, step = int64_t{blockDim.x} * pack;
  for (int64_t i = first; i < width; i += step)
    for (int j = 0; j < pack; ++j) sums[i + j] = 0;
  const int64_t begin = blockIdx.x * block_rows;
  const int64_t end = begin + block_rows < rows ? begin + block_rows : rows;
  for (int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
    const Y* grad = grad_y + row * grad_stride;
    const X* from = x + row * x_stride;
    X* to = dx + row * dx_stride;
    const A scale = rstd[row];
    A dot = 0;
    for (int64_t i = first; i < width; i += step) {
      const auto grads = load_pack<pack>(grad + i);
      const auto values = load_pack<pack>(from + i);
      const auto weights = load_weight<pack, A>(weight, weight_dtype, i);
#pragma unroll
      for (int j = 0; j < pack; ++j) {
        const A product = widen(grads[j]) * (widen(values[j]) * scale);
        dot += product * weights[j];
        sums[i + j] += product;
      }
    }
    const A mean = sum_of_row<by_warp>(dot) / static_cast<A>(width);
    for (int64_t i = first; i < width; i += step) {
      const auto grads = load_pack<pack>(grad + i);
      const auto values = load_pack<pack>(from + i);
      const auto weights = load_weight<pack, A>(weight, weight_dtype, i);
      Pack<X, pack> result;
#pragma unroll
      for (int j = 0; j < pack; ++j)
        result[j] = narrow<X>((widen(grads[j]) * weights[j] - widen(values[j]) * scale * mean) * scale);
      store_pack(to + i, result);
    }
  }
  if (!in_shared) return;
  __syncthreads();
  const int64_t thread = int64_t{threadIdx.y} * blockDim.x + threadIdx.x, threads = int64_t{blockDim.x} * blockDim.y;
  for (int64_t i = thread; i < width; i += threads) {
    A total = 0;
    for (unsigned warp = 0; warp < blockDim.y; ++warp) total += shared[warp * width + i];
    partial[i] = total;
  }
}

constexpr int kSumColumns = 32, kSumRows = 8;

/// out[i] = the sum over `count` rows of `partials`, for 32 columns a block of (32, 8) threads.
template <typename T>
__global__ void sum_columns(const Accumulate<T>* partials, int64_t count, int64_t width, T* out) {
  using A = Accumulate<T>;
  __shared__ A sums[kSumRows][kSumColumns];
  const int64_t column = int64_t{blockIdx.x} * kSumColumns + threadIdx.x;
  A total = 0;
  if (column < width)
    for (int64_t row = threadIdx.y; row < count; row += kSumRows) total += partials[row * width + column];
  sums[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  total = 0;
  for (int row = 0; row < kSumRows; ++row) total += sums[row][threadIdx.x];
  out[column] = narrow<T>(total);
}

}  // namespace plimsoll::cuda
