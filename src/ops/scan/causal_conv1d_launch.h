// Starts of the causal convolution's CUDA kernels: raw memory of the device, no tensors, no allocation, no waiting.
#pragma once

#include <cstdint>

#include "ops/scan/causal_conv_plan.h"
#include "plimsoll/trace.h"

typedef struct CUstream_st* cudaStream_t;

namespace plimsoll::cuda {

/// Strides in elements. The filter and the bias are of a type of their own.
struct CausalConv {
  const void* x = nullptr;  ///< [batch, time, channels], channels side by side
  DType dtype = DType::float32;
  int64_t batch_stride = 0, time_stride = 0;
  const void* weight = nullptr;  ///< [channels, taps]
  const void* bias = nullptr;    ///< [channels]
  DType weight_dtype = DType::float32;
  int64_t channel_stride = 0, tap_stride = 0;  ///< of the filter
  int64_t bias_stride = 0;
  int64_t batch = 0, time = 0, channels = 0, taps = 0;
  bool reverse = false;
};

/// Blocks of positions, each with sums of its own.
inline int64_t conv_tasks(int64_t batch, int64_t time) {
  const int64_t block = ops::conv_block(time);
  return batch * ((time + block - 1) / block);
}

/// y [batch, time, channels], contiguous.
void launch_causal_conv(const CausalConv& in, void* y, cudaStream_t stream);

/// dx as y; dweight [channels, taps] and dbias [channels], contiguous, of weight_dtype. `shares` is scratch, float32
/// (float64 for float64): [conv_tasks(), kConvTaps + 1, channels].
void launch_causal_conv_backward(const CausalConv& in, const void* grad_y, int64_t grad_batch_stride,
                                 int64_t grad_time_stride, void* dx, void* dweight, void* dbias, void* shares,
                                 cudaStream_t stream);

}  // namespace plimsoll::cuda
