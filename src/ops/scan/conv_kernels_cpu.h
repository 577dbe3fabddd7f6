// Declares the arithmetic of the causal convolution on raw memory, and its division into blocks of positions, which the
// estimates of its workspace use too. No libtorch, no allocation, no threads.
#pragma once

#include <cstdint>

#include "ops/host_device.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

constexpr int64_t kConvTaps = 4;  ///< shorter filters are padded with zeros at the beginning

/// Returns the positions that one thread processes at a time. They do not depend on the number of threads, so neither
/// do sums of gradients.
PLIMSOLL_HOST_DEVICE int64_t conv_block(int64_t time) {
  const int64_t share = (time + 31) / 32;
  return share > 64 ? share : 64;
}

/// The operands of the convolution; its sums are float32 or float64: "accumulator", as in kernels_cpu.h.
struct CausalConv {
  const void* x = nullptr;  ///< [batch, time, channels], contiguous channels
  DType dtype = DType::float32;
  int64_t batch_stride = 0, time_stride = 0;  ///< strides of x, in elements
  const void* taps = nullptr;                 ///< accumulator [kConvTaps + 1, channels]: the filter, then the bias
  int64_t batch = 0, time = 0, channels = 0;
  bool reverse = false;
};

/// Computes y [batch, time, channels], contiguous, for blocks `begin` to `end` of the batch x blocks.
void causal_conv_blocks(const CausalConv& in, void* y, int64_t begin, int64_t end);

/// Computes dx, in the layout of y. Writes each block's share of the gradients of filter and bias to `shares` [batch x
/// blocks, kConvTaps + 1, channels], accumulator.
void causal_conv_backward_blocks(const CausalConv& in, const void* grad_y, int64_t grad_batch_stride,
                                 int64_t grad_time_stride, void* dx, void* shares, int64_t begin, int64_t end);

}  // namespace plimsoll::ops
