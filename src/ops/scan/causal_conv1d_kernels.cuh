// Implements the causal convolution with SiLU. A thread processes one channel of a block of positions in order, with
// the last inputs in registers. Every input is read once, plus three more a block.
#pragma once

#include "ops/device_support.cuh"
#include "ops/scan/scan_launch.h"

namespace plimsoll::cuda {

/// The filter, the bias and the last inputs of a channel.
template <typename S>
struct ConvWindow {
  S taps[ops::kConvTaps], bias, x[ops::kConvTaps];

  __device__ ConvWindow(const CausalConv& in, int32_t channel) {
#pragma unroll
    for (int k = 0; k < ops::kConvTaps; ++k) {
      const int tap =
          k - (ops::kConvTaps - static_cast<int>(in.taps));  // shorter filters are padded with zeros at the beginning
      taps[k] =
          tap < 0 ? S(0) : load_as<S>(in.weight, in.weight_dtype, channel * in.channel_stride + tap * in.tap_stride);
      x[k] = 0;
    }
    bias = load_as<S>(in.bias, in.weight_dtype, channel * in.bias_stride);
  }
  __device__ void push(S next) {
#pragma unroll
    for (int k = 0; k + 1 < ops::kConvTaps; ++k) x[k] = x[k + 1];
    x[ops::kConvTaps - 1] = next;
  }
  __device__ S sum() const {
    S total = bias;
#pragma unroll
    for (int k = 0; k < ops::kConvTaps; ++k) total += taps[k] * x[k];
    return total;
  }
};

/// The work of a thread: positions [begin, end) of a sequence, in the order of the scan.
struct ConvTask {
  int32_t task, channel, channels, batch, begin, end, time;
  bool reverse;
  __device__ ConvTask(const CausalConv& in, int32_t index)
      : channels(static_cast<int32_t>(in.channels)), time(static_cast<int32_t>(in.time)), reverse(in.reverse) {
    const auto size = static_cast<int32_t>(ops::conv_block(time)), blocks = (time + size - 1) / size;
    task = index / channels;
    channel = index % channels;
    batch = task / blocks;
    begin = task % blocks * size;
    end = time - begin < size ? time : begin + size;
  }
  __device__ int32_t before() const { return begin < ops::kConvTaps - 1 ? 0 : begin - (ops::kConvTaps - 1); }
  /// Returns the offset of position 0 in the order of the scan. Position i has the offset origin() + i step().
  __device__ int64_t origin(int64_t batch_stride, int64_t time_stride) const {
    return batch * batch_stride + (reverse ? (time - 1) * time_stride : 0) + channel;
  }
  __device__ int32_t step(int64_t time_stride) const {
    return static_cast<int32_t>(reverse ? -time_stride : time_stride);
  }
};

template <typename T>
__global__ void convolve(CausalConv in, int32_t threads, T* __restrict__ y) {
  using S = Accumulate<T>;
  const int32_t index = grid_index();
  if (index >= threads) return;
  const ConvTask task(in, index);
  const T* __restrict__ from = static_cast<const T*>(in.x) + task.origin(in.batch_stride, in.time_stride);
  T* __restrict__ to = y + task.origin(in.time * in.channels, in.channels);
  const int32_t step = task.step(in.time_stride), to_step = task.step(in.channels);
  ConvWindow<S> window(in, task.channel);
  for (int32_t i = task.before(); i < task.begin; ++i) window.push(widen(from[int64_t{i} * step]));
#pragma unroll 4
  for (int32_t i = task.begin; i < task.end; ++i) {
    window.push(widen(from[int64_t{i} * step]));
    const S v = window.sum();
    to[int64_t{i} * to_step] = narrow<T>(v / (exponential(-v) + 1));
  }
}

template <typename T>
__global__ void convolve_backward(CausalConv in, int32_t threads, const T* __restrict__ grad_y,
                                  int64_t grad_batch_stride, int64_t grad_time_stride, T* __restrict__ dx,
                                  Accumulate<T>* __restrict__ shares) {
  using S = Accumulate<T>;
  constexpr int kTaps = ops::kConvTaps;
  const int32_t index = grid_index();
  if (index >= threads) return;
  const ConvTask task(in, index);
  const T* __restrict__ from = static_cast<const T*>(in.x) + task.origin(in.batch_stride, in.time_stride);
  const T* __restrict__ dy = grad_y + task.origin(grad_batch_stride, grad_time_stride);
  T* __restrict__ to = dx + task.origin(in.time * in.channels, in.channels);
  const int32_t step = task.step(in.time_stride), dy_step = task.step(grad_time_stride),
                to_step = task.step(in.channels);
  ConvWindow<S> window(in, task.channel);
  S sums[kTaps + 1] = {}, gradients[kTaps] = {};  // gradients of the sums before SiLU, the newest last
  for (int32_t i = task.before(); i < task.begin; ++i) window.push(widen(from[int64_t{i} * step]));
    // The gradient of a position comes from it and the three positions after it.
#pragma unroll 2
  for (int32_t i = task.begin; i < task.end + kTaps - 1; ++i) {
    S gradient = 0;
    if (i < task.time) {
      window.push(widen(from[int64_t{i} * step]));
      const S v = window.sum(), sigmoid = 1 / (exponential(-v) + 1);
      gradient = widen(dy[int64_t{i} * dy_step]) * sigmoid * (1 + v * (1 - sigmoid));
      if (i < task.end) {
#pragma unroll
        for (int k = 0; k < kTaps; ++k) sums[k] += gradient * window.x[k];
        sums[kTaps] += gradient;
      }
    }
#pragma unroll
    for (int k = 0; k + 1 < kTaps; ++k) gradients[k] = gradients[k + 1];
    gradients[kTaps - 1] = gradient;
    if (i < task.begin + kTaps - 1) continue;
    S total = 0;
#pragma unroll
    for (int k = 0; k < kTaps; ++k) total += window.taps[k] * gradients[kTaps - 1 - k];
    to[int64_t{i - (kTaps - 1)} * to_step] = narrow<T>(total);
  }
  Accumulate<T>* __restrict__ share = shares + int64_t{task.task} * ((kTaps + 1) * task.channels) + task.channel;
#pragma unroll
  for (int k = 0; k <= kTaps; ++k) share[k * task.channels] = sums[k];
}

/// Sums the blocks' shares in order.
template <typename S>
__global__ void sum_conv_shares(const S* shares, int32_t tasks, CausalConv in, void* dweight, void* dbias) {
  const auto channels = static_cast<int32_t>(in.channels);
  const int32_t index = grid_index(), width = (ops::kConvTaps + 1) * channels;
  if (index >= width) return;
  S sum = 0;
  for (int32_t task = 0; task < tasks; ++task) sum += shares[int64_t{task} * width + index];
  const int32_t channel = index % channels, k = index / channels;
  if (k == ops::kConvTaps) return store_as<S>(dbias, in.weight_dtype, channel, sum);
  const int tap = k - (ops::kConvTaps - static_cast<int>(in.taps));
  if (tap >= 0) store_as<S>(dweight, in.weight_dtype, channel * in.taps + tap, sum);
}

}  // namespace plimsoll::cuda
