// Implements root mean square normalization: a warp a row if rows are narrow, else a block a row. A row is read from
// memory once; the second read hits the cache. If x is a sum, the first read computes it. If dx is part of a sum, it is
// added when it is written.
#pragma once

#include "ops/device_support.cuh"
#include "ops/host_device.h"
#include "plimsoll/trace.h"

namespace plimsoll::cuda {

/// Loads the elements from i on, of any stored type: all threads take the same branch.
template <int pack, typename Wide>
__device__ inline Pack<Wide, pack> load_wide(const void* from, DType dtype, int64_t i) {
  Pack<Wide, pack> wide;
  if constexpr (sizeof(Wide) == 4) {
    if (dtype == DType::bfloat16) {
      const auto narrow = load_pack<pack>(static_cast<const bfloat16*>(from) + i);
      for (int j = 0; j < pack; ++j) wide[j] = widen(narrow[j]);
      return wide;
    }
    if (dtype == DType::float16) {
      const auto narrow = load_pack<pack>(static_cast<const float16*>(from) + i);
      for (int j = 0; j < pack; ++j) wide[j] = widen(narrow[j]);
      return wide;
    }
  }
  return load_pack<pack>(static_cast<const Wide*>(from) + i);
}

/// Returns the sum over the threads that share a row.
template <bool by_warp, typename T>
__device__ inline T sum_of_row(T value) {
  if constexpr (by_warp)
    return reduce_warp<Sum>(value);
  else
    return reduce_block<Sum>(value);
}

/// A source of x for the forward pass that is stored in memory.
template <typename X>
struct StoredX {
  const X* x;
  int64_t stride;
  template <int pack>
  __device__ Pack<X, pack> first(int32_t row, int32_t i) const {
    return again<pack>(row, i);
  }
  template <int pack>
  __device__ Pack<X, pack> again(int32_t row, int32_t i) const {
    return load_pack<pack>(x + row * stride + i);
  }
};

/// A source of x = a + b, stored on the first read. Each thread rereads only elements that it stored itself.
template <typename X>
struct SummedX {
  const X* a;
  int64_t a_stride;
  const void* b;
  DType b_dtype;
  int64_t b_stride;
  X* sum;
  int64_t sum_stride;
  template <int pack>
  __device__ Pack<X, pack> first(int32_t row, int32_t i) const {
    const auto left = load_pack<pack>(a + row * a_stride + i);
    const auto right = load_wide<pack, Accumulate<X>>(b, b_dtype, row * b_stride + i);
    Pack<X, pack> total;
#pragma unroll
    for (int j = 0; j < pack; ++j) total[j] = narrow<X>(widen(left[j]) + right[j]);
    store_pack(sum + row * sum_stride + i, total);
    return total;
  }
  template <int pack>
  __device__ Pack<X, pack> again(int32_t row, int32_t i) const {
    return load_pack<pack>(sum + row * sum_stride + i);
  }
};

/// A destination of the backward's dx: rows of its own.
template <typename X>
struct StoreDx {
  X* dx;
  int64_t stride;
  template <int pack>
  __device__ void put(int32_t row, int32_t i, const Pack<X, pack>& values) const {
    store_pack(dx + row * stride + i, values);
  }
};

/// Stores values in 16 bits, in rows of a type that is known at run time.
template <int pack, typename A>
__device__ inline void store_narrow(void* data, DType dtype, int64_t at, const Pack<A, pack>& values) {
  if (dtype == DType::bfloat16) {
    Pack<bfloat16, pack> rounded;
#pragma unroll
    for (int j = 0; j < pack; ++j) rounded[j] = narrow<bfloat16>(static_cast<float>(values[j]));
    return store_pack(static_cast<bfloat16*>(data) + at, rounded);
  }
  Pack<float16, pack> rounded;
#pragma unroll
  for (int j = 0; j < pack; ++j) rounded[j] = narrow<float16>(static_cast<float>(values[j]));
  store_pack(static_cast<float16*>(data) + at, rounded);
}

/// A destination that adds dx: sum = grad + dx, with dx rounded to X before. The sum has the type of X, or float32 like
/// grad. A float32 sum may also be stored in 16 bits (`copy`; null: it is not).
template <typename X>
struct AddDx {
  const void* grad;
  DType grad_dtype;
  int64_t grad_stride;
  void* sum;
  bool sum_is_wide;
  int64_t sum_stride;
  void* copy;
  DType copy_dtype;
  int64_t copy_stride;
  template <int pack>
  __device__ void put(int32_t row, int32_t i, const Pack<X, pack>& values) const {
    using A = Accumulate<X>;
    const int64_t at = row * sum_stride + i;
    auto total = load_wide<pack, A>(grad, grad_dtype, row * grad_stride + i);
#pragma unroll
    for (int j = 0; j < pack; ++j)  // not fused with the product that yields dx
      total[j] = static_cast<A>(ops::Unfused<A>(total[j]) + ops::Unfused<A>(widen(values[j])));
    if (copy) store_narrow<pack>(copy, copy_dtype, row * copy_stride + i, total);
    if (sum_is_wide) return store_pack(static_cast<A*>(sum) + at, total);
    Pack<X, pack> rounded;
#pragma unroll
    for (int j = 0; j < pack; ++j) rounded[j] = narrow<X>(total[j]);
    store_pack(static_cast<X*>(sum) + at, rounded);
  }
};

template <typename X, typename Y, int pack, bool by_warp, typename Source>
__global__ void __launch_bounds__(1024)
    rms_norm(Source x, Y* y, int64_t y_stride, const void* weight, DType weight_dtype, Accumulate<X>* rstd,
             int32_t rows, int32_t width, Accumulate<X> eps) {
  using A = Accumulate<X>;
  const auto row = static_cast<int32_t>(blockIdx.x * blockDim.y + threadIdx.y);
  if (row >= rows) return;  // a whole warp, or a whole block
  Y* to = y + row * y_stride;
  const int32_t first = static_cast<int32_t>(threadIdx.x) * pack, step = static_cast<int32_t>(blockDim.x) * pack;
  A squares = 0;
  for (int32_t i = first; i < width; i += step) {
    const auto values = x.template first<pack>(row, i);
#pragma unroll
    for (int j = 0; j < pack; ++j) squares += widen(values[j]) * widen(values[j]);
  }
  const A mean = sum_of_row<by_warp>(squares) / static_cast<A>(width);
  // A row of zeros has no scale (kernel_arguments.h), except if eps is below 0 (rms_norm.h).
  const A scale = mean == 0 && eps >= 0 ? A{1} : 1 / square_root(mean + (eps < 0 ? -eps : eps));
  if (threadIdx.x == 0) rstd[row] = scale;
  for (int32_t i = first; i < width; i += step) {
    const auto values = x.template again<pack>(row, i);
    const auto weights = load_wide<pack, A>(weight, weight_dtype, i);
    Pack<Y, pack> result;
#pragma unroll
    for (int j = 0; j < pack; ++j) result[j] = narrow<Y>(widen(values[j]) * scale * weights[j]);
    store_pack(to + i, result);
  }
}

/// Computes the rows [b * block_rows, (b + 1) * block_rows) in block b, and writes its sums of grad_y x rstd to row b
/// of `partials`. The running sums are in shared memory, a row for each of its warps (by_warp) or for the block. There
/// the j-th values of all packs are adjacent, so that threads of a warp use different banks. If shared memory is too
/// small (`in_shared` false, only without by_warp), the sums are in `partials` itself. Each thread has its own columns.
template <typename X, typename Y, int pack, bool by_warp, typename Target>
__global__ void __launch_bounds__(1024)
    rms_norm_backward(const Y* grad_y, int64_t grad_stride, const X* x, int64_t x_stride, Target dx, const void* weight,
                      DType weight_dtype, const Accumulate<X>* rstd, int32_t rows, int32_t width, int32_t block_rows,
                      Accumulate<X>* partials, bool in_shared) {
  using A = Accumulate<X>;
  PLIMSOLL_DYNAMIC_SHARED(A, shared);
  A* const partial = partials + int64_t{blockIdx.x} * width;
  if constexpr (by_warp) in_shared = true;
  A* const sums = in_shared ? shared + threadIdx.y * width : partial;
  const int32_t of_pack = in_shared ? 1 : pack, of_value = in_shared ? width / pack : 1;
  const int32_t first = static_cast<int32_t>(threadIdx.x) * pack, step = static_cast<int32_t>(blockDim.x) * pack;
  for (int32_t i = first; i < width; i += step)
    for (int j = 0; j < pack; ++j) sums[i / pack * of_pack + j * of_value] = 0;
  const int32_t begin = static_cast<int32_t>(blockIdx.x) * block_rows;
  const int32_t end = rows - begin < block_rows ? rows : begin + block_rows;
  for (int32_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
    const Y* grad = grad_y + row * grad_stride;
    const X* from = x + row * x_stride;
    const A scale = rstd[row];
    A dot = 0;
    for (int32_t i = first; i < width; i += step) {
      const auto grads = load_pack<pack>(grad + i);
      const auto values = load_pack<pack>(from + i);
      const auto weights = load_wide<pack, A>(weight, weight_dtype, i);
#pragma unroll
      for (int j = 0; j < pack; ++j) {
        const A product = widen(grads[j]) * (widen(values[j]) * scale);
        dot += product * weights[j];
        sums[i / pack * of_pack + j * of_value] += product;
      }
    }
    const A mean = sum_of_row<by_warp>(dot) / static_cast<A>(width);
    for (int32_t i = first; i < width; i += step) {
      const auto grads = load_pack<pack>(grad + i);
      const auto values = load_pack<pack>(from + i);
      const auto weights = load_wide<pack, A>(weight, weight_dtype, i);
      Pack<X, pack> result;
#pragma unroll
      for (int j = 0; j < pack; ++j)
        result[j] = narrow<X>((widen(grads[j]) * weights[j] - widen(values[j]) * scale * mean) * scale);
      dx.template put<pack>(row, i, result);
    }
  }
  if (!in_shared) return;
  __syncthreads();
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
  for (int32_t i = thread; i < width; i += threads) {
    A total = 0;
    for (unsigned warp = 0; warp < blockDim.y; ++warp) total += shared[warp * width + i / pack + i % pack * of_value];
    partial[i] = total;
  }
}

constexpr int kSumColumns = 32, kSumRows = 8;

/// Computes out[i] = the sum over `count` rows of `partials`, for 32 columns a block of (32, 8) threads.
template <typename T>
__global__ void sum_columns(const Accumulate<T>* partials, int32_t count, int32_t width, T* out) {
  using A = Accumulate<T>;
  __shared__ A sums[kSumRows][kSumColumns];
  const auto column = static_cast<int32_t>(blockIdx.x * kSumColumns + threadIdx.x);
  A total = 0;
  if (column < width)
    for (int32_t row = threadIdx.y; row < count; row += kSumRows) total += partials[int64_t{row} * width + column];
  sums[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  total = 0;
  for (int row = 0; row < kSumRows; ++row) total += sums[row][threadIdx.x];
  out[column] = narrow<T>(total);
}

}  // namespace plimsoll::cuda
