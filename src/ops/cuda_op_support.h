// Declares helpers that the definitions of our operators' CUDA kernels share. With PLIMSOLL_CUDA_ON_CPU they run on the
// CPU's tensors, kernels by emulation (tests/cuda_on_cpu).
#pragma once

#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/op_support.h"

#ifdef PLIMSOLL_CUDA_ON_CPU
typedef struct CUstream_st* cudaStream_t;
#else
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace plimsoll::cuda {

/// A scope in which a tensor's device is the current one.
class OnDevice {
 public:
#ifdef PLIMSOLL_CUDA_ON_CPU
  explicit OnDevice(const at::Tensor&) {}
  cudaStream_t stream() const {
    return nullptr;
  }
#else
  explicit OnDevice(const at::Tensor& tensor) : guard_(tensor.device()) {}
  cudaStream_t stream() const {
    return c10::cuda::getCurrentCUDAStream(guard_.current_device().index()).stream();
  }

 private:
  c10::cuda::CUDAGuard guard_;
#endif
};

/// Computes c = a b for batches of matrices. c may be float32 if a and b have 16 bits: sums are float32 then anyway.
inline void multiply(const at::Tensor& a, const at::Tensor& b, at::Tensor c) {
  if (a.scalar_type() == c.scalar_type())
    at::bmm_out(c, a, b);
  else
#ifdef PLIMSOLL_CUDA_ON_CPU  // libtorch has it for CUDA only
    at::bmm_out(c, a.to(c.scalar_type()), b.to(c.scalar_type()));
#else
    at::bmm_out(c, a, b, c.scalar_type());
#endif
}

}  // namespace plimsoll::cuda
