// Declares the launchers of the causal convolution's CUDA kernels, on raw device memory: no tensors, no allocation, no
// waiting.
#pragma once

#include <cstdint>

#include "ops/scan/conv_kernels_cpu.h"
#include "plimsoll/trace.h"

typedef struct CUstream_st* cudaStream_t;

namespace plimsoll::cuda {

/// The operands of the convolution; strides are in elements. The filter and the bias have a type of their own.
struct CausalConv {
  const void* x = nullptr;  ///< [batch, time, channels], contiguous channels
  DType dtype = DType::float32;
  int64_t batch_stride = 0, time_stride = 0;
  const void* weight = nullptr;  ///< [channels, taps]
  const void* bias = nullptr;    ///< [channels]
  DType weight_dtype = DType::float32;
  int64_t channel_stride = 0, tap_stride = 0;  ///< strides of the filter
  int64_t bias_stride = 0;
  int64_t batch = 0, time = 0, channels = 0, taps = 0;
  bool reverse = false;
};

/// Returns the number of blocks of positions; each block has its own partial sums.
inline int64_t conv_tasks(int64_t batch, int64_t time) {
  const int64_t block = ops::conv_block(time);
  return batch * ((time + block - 1) / block);
}

/// Computes y [batch, time, channels], contiguous.
void launch_causal_conv(const CausalConv& in, void* y, cudaStream_t stream);

/// Computes dx, in the layout of y, and dweight [channels, taps] and dbias [channels], contiguous, of weight_dtype.
/// `shares` is scratch, float32 (float64 for float64): [conv_tasks(), kConvTaps + 1, channels].
void launch_causal_conv_backward(const CausalConv& in, const void* grad_y, int64_t grad_batch_stride,
                                 int64_t grad_time_stride, void* dx, void* dweight, void* dbias, void* shares,
                                 cudaStream_t stream);

}  // namespace plimsoll::cuda
