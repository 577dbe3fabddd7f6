// What the CUDA kernels' registrations share: op_support.h, and the device and stream that an operator runs on. Not
// ATen/cuda's headers, which want cuBLAS's and cuSPARSE's.
#pragma once

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "ops/op_support.h"

namespace plimsoll::ops {

/// Makes a tensor's device the current one for its lifetime.
class DeviceOf {
 public:
  explicit DeviceOf(const at::Tensor& tensor)
      : guard_(tensor.device()), stream_(c10::cuda::getCurrentCUDAStream(tensor.device().index())) {}
  cudaStream_t stream() const { return stream_; }

 private:
  c10::cuda::CUDAGuard guard_;
  cudaStream_t stream_;
};

}  // namespace plimsoll::ops
