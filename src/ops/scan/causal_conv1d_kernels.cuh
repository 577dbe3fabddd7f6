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

  __device__ ConvWindow(const CausalConv& in, int64_t channel) {
#pragma unroll
    for (int k = 0; k < ops::kConvTaps; ++k) {
      const int64_t tap = k - (ops::kConvTaps - in.taps);  // shorter filters are padded with zeros at the beginning
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
  int64_t task, channel, batch, begin, end;
  __device__ ConvTask(const CausalConv& in, int64_t index) {
    const int64_t size = ops::conv_block(in.time), blocks = (in.time + size - 1) / size;
    task = index / in.channels;
    channel = index % in.channels;
    batch = task / blocks;
    begin = task % blocks * size;
    end = begin + size < in.time ? begin + size : in.time;
  }
  __device__ int64_t before() const { return begin < ops::kConvTaps - 1 ? 0 : begin - (ops::kConvTaps - 1); }
};
__device__ inline int64_t conv_time(const CausalConv& in, int64_t position) {
  return in.reverse ? in.time - 1 - position : position;
}

template <typename T>
__global__ void convolve(CausalConv in, int64_t tasks, T* __restrict__ y) {
  using S = Accumulate<T>;
  const int64_t index = grid_index();
  if (index >= tasks * in.channels) return;
  const ConvTask task(in, index);
  const T* __restrict__ from = static_cast<const T*>(in.x) + task.batch * in.batch_stride + task.channel;
  T* __restrict__ to = y + task.batch * in.time * in.channels + task.channel;
  ConvWindow<S> window(in, task.channel);
  for (int64_t i = task.before(); i < task.begin; ++i) window.push(widen(from[conv_time(in, i) * in.time_stride]));
#pragma unroll 4
  for (int64_t i = task.begin; i < task.end; ++i) {
    const int64_t t = conv_time(in, i);
    window.push(widen(from[t * in.time_stride]));
    const S v = window.sum();
    to[t * in.channels] = narrow<T>(v / (exponential(-v) + 1));
  }
}

template <typename T>
__global__ void convolve_backward(CausalConv in, int64_t tasks, const T* __restrict__ grad_y, int64_t grad_batch_stride,
                                  int64_t grad_time_stride, T* __restrict__ dx, Accumulate<T>* __restrict__ shares) {
  using S = Accumulate<T>;
  constexpr int kTaps = ops::kConvTaps;
  const int64_t index = grid_index();
  if (index >= tasks * in.channels) return;
  const ConvTask task(in, index);
  const T* __restrict__ from = static_cast<const T*>(in.x) + task.batch * in.batch_stride + task.channel;
  const T* __restrict__ dy = grad_y + task.batch * grad_batch_stride + task.channel;
  T* __restrict__ to = dx + task.batch * in.time * in.channels + task.channel;
  ConvWindow<S> window(in, task.channel);
  S sums[kTaps + 1] = {}, gradients[kTaps] = {};  // gradients of the sums before SiLU, the newest last
  for (int64_t i = task.before(); i < task.begin; ++i) window.push(widen(from[conv_time(in, i) * in.time_stride]));
    // The gradient of a position comes from it and the three positions after it.
#pragma unroll 2
  for (int64_t i = task.begin; i < task.end + kTaps - 1; ++i) {
    S gradient = 0;
    if (i < in.time) {
      const int64_t t = conv_time(in, i);
      window.push(widen(from[t * in.time_stride]));
      const S v = window.sum(), sigmoid = 1 / (exponential(-v) + 1);
      gradient = widen(dy[t * grad_time_stride]) * sigmoid * (1 + v * (1 - sigmoid));
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
    to[conv_time(in, i - (kTaps - 1)) * in.channels] = narrow<T>(total);
  }
#pragma unroll
  for (int k = 0; k <= kTaps; ++k) shares[(task.task * (kTaps + 1) + k) * in.channels + task.channel] = sums[k];
}

/// Sums the blocks' shares in order.
template <typename S>
__global__ void sum_conv_shares(const S* shares, int64_t tasks, CausalConv in, void* dweight, void* dbias) {
  const int64_t index = grid_index(), width = (ops::kConvTaps + 1) * in.channels;
  if (index >= width) return;
  S sum = 0;
  for (int64_t task = 0; task < tasks; ++task) sum += shares[task * width + index];
  const int64_t channel = index % in.channels, k = index / in.channels;
  if (k == ops::kConvTaps) return store_as<S>(dbias, in.weight_dtype, channel, sum);
  const int64_t tap = k - (ops::kConvTaps - in.taps);
  if (tap >= 0) store_as<S>(dweight, in.weight_dtype, channel * in.taps + tap, sum);
}

}  // namespace plimsoll::cuda
