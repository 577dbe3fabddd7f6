// Implements softmax, loss and its gradient over rows of logits: one block a row. The first read finds the largest
// logit and the sum of exponentials. The second, which finds most of the row in the cache, overwrites the logits with
// the gradient.
#pragma once

#include "ops/device_support.cuh"

namespace plimsoll::cuda {

/// The largest of some values, and the sum of e^(x - largest).
template <typename A>
struct RunningSoftmax {
  A maximum = lowest<A>();
  A total = 0;

  /// Adds `values`. Their largest is found first, so that the sum is rescaled once for all of them.
  template <int count>
  __device__ void add(const A (&values)[count]) {
    A top = values[0];
#pragma unroll
    for (int j = 1; j < count; ++j) top = values[j] > top ? values[j] : top;
    if (top > maximum) {
      if (maximum != lowest<A>()) total *= exponential(maximum - top);
      maximum = top;
    }
    if (maximum == lowest<A>()) {  // only minus infinity so far, or NaN, which must not be lost
#pragma unroll
      for (int j = 0; j < count; ++j) total += values[j] != values[j] ? values[j] : A(0);
      return;
    }
#pragma unroll
    for (int j = 0; j < count; ++j) total += exponential(values[j] - maximum);
  }

  /// Returns maximum and total over all threads of a block. All must call.
  __device__ RunningSoftmax of_block() const {
    const A top = reduce_block<Largest>(maximum);
    const A share = maximum == lowest<A>() ? (total != total ? total : A(0)) : total * exponential(maximum - top);
    return {top, reduce_block<Sum>(share)};
  }
  /// Returns log(sum of e^x) over all threads of a block. All must call.
  __device__ A log_sum_of_block() const {
    const RunningSoftmax all = of_block();
    return all.maximum + logarithm(all.total);
  }
};

template <typename T, int pack>
__global__ void __launch_bounds__(1024)
    cross_entropy(T* logits, int64_t stride, const int64_t* targets, int64_t target_stride, int64_t ignore_index,
                  Accumulate<T>* losses, int32_t width, bool gradient, Accumulate<T> cap) {
  using A = Accumulate<T>;
  const int64_t row = blockIdx.x, of_row = targets[row * target_stride];
  T* const x = logits + row * stride;
  const int32_t first = static_cast<int32_t>(threadIdx.x) * pack, step = static_cast<int32_t>(blockDim.x) * pack;
  const bool ignored = of_row == ignore_index;
  if (ignored || of_row < 0 || of_row >= width) {
    const A value = ignored ? A(0) : static_cast<A>(NAN);
    if (threadIdx.x == 0) losses[row] = value;
    if (!gradient) return;
    Pack<T, pack> filled;
    for (int j = 0; j < pack; ++j) filled[j] = narrow<T>(value);
    for (int32_t i = first; i < width; i += step) store_pack(x + i, filled);
    return;
  }
  const auto target = static_cast<int32_t>(of_row);
  const A inner = cap > 0 ? 1 / cap : A(0);
  const auto capped = [cap, inner](A value) { return cap > 0 ? hyperbolic_tangent(value * inner) * cap : value; };
  RunningSoftmax<A> softmax;
  for (int32_t i = first; i < width; i += step) {
    const auto raw = load_pack<pack>(x + i);
    A values[pack];
#pragma unroll
    for (int j = 0; j < pack; ++j) values[j] = capped(widen(raw[j]));
    softmax.add(values);
  }
  const A log_sum = softmax.log_sum_of_block();
  const A at_target = capped(widen(x[target]));  // all threads read before any thread writes
  if (threadIdx.x == 0) losses[row] = log_sum - at_target;
  if (!gradient) return;
  __syncthreads();
  for (int32_t i = first; i < width; i += step) {
    const auto raw = load_pack<pack>(x + i);
    Pack<T, pack> result;
#pragma unroll
    for (int j = 0; j < pack; ++j) {
      const A value = capped(widen(raw[j]));
      const A share = cap > 0 ? value * inner : A(0);  // a logit may be minus infinity: it must not be multiplied by 0
      const A probability = exponential(value - log_sum) - (i + j == target ? A(1) : A(0));
      result[j] = narrow<T>(probability * (1 - share * share));
    }
    store_pack(x + i, result);
  }
}

/// Runs in one block, because there are few values a token.
template <typename A>
__global__ void __launch_bounds__(1024) mean_loss(const A* losses, const int64_t* targets, int32_t target_stride,
                                                  int64_t ignore_index, int32_t tokens, A* loss, A* count) {
  double total = 0, counted = 0;
  for (int32_t i = threadIdx.x; i < tokens; i += blockDim.x) {
    total += static_cast<double>(losses[i]);
    if (targets[int64_t{i} * target_stride] != ignore_index) counted += 1;
  }
  total = reduce_block<Sum>(total);
  counted = reduce_block<Sum>(counted);
  if (threadIdx.x != 0) return;
  if (counted < 1) counted = 1;
  *loss = static_cast<A>(total / counted);
  if (count != nullptr) *count = static_cast<A>(counted);
}

/// Computes high + low += part, a Cell a thread; the sum is stored as two values of one type.
template <typename T>
__global__ void __launch_bounds__(256)
    split_add(const T* part, int64_t part_stride, T* high, int64_t high_stride, T* low, int64_t low_stride,
              bool read_low, bool write_low, int32_t rows, int32_t width) {
  using A = Accumulate<T>;
  const Cell at = cell<1>();
  if (at.row >= rows || at.column >= width) return;
  T& top = high[at.row * high_stride + at.column];
  A total = widen(part[at.row * part_stride + at.column]);
  if (read_low) total += widen(low[at.row * low_stride + at.column]);
  total += widen(top);
  const T rounded = narrow<T>(total);
  top = rounded;
  if (write_low) low[at.row * low_stride + at.column] = narrow<T>(total - widen(rounded));
}

/// Computes the same for three contiguous operands of `packs` packs, a pack a thread.
template <typename T, int pack>
__global__ void __launch_bounds__(256)
    split_add_dense(const T* part, T* high, T* low, bool read_low, bool write_low, int32_t packs) {
  using A = Accumulate<T>;
  const int32_t thread = grid_index();
  if (thread >= packs) return;
  const int64_t i = int64_t{thread} * pack;
  const auto parts = load_pack<pack>(part + i);
  auto tops = load_pack<pack>(high + i);
  Pack<T, pack> rests = parts;
  if (read_low) rests = load_pack<pack>(low + i);
#pragma unroll
  for (int j = 0; j < pack; ++j) {
    A total = widen(parts[j]);
    if (read_low) total += widen(rests[j]);
    total += widen(tops[j]);
    tops[j] = narrow<T>(total);
    rests[j] = narrow<T>(total - widen(tops[j]));
  }
  store_pack(high + i, tops);
  if (write_low) store_pack(low + i, rests);
}

}  // namespace plimsoll::cuda
