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

/// Throws UserError unless the operand is on `device`, or is missing. A kernel would read an address of the host.
inline void require_on(const char* op, c10::Device device, const at::Tensor& operand) {
  if (!operand.defined()) return;
  ops::require(operand.device() == device, op, "an operand is on ", operand.device(), ", another one on ", device,
               "; all must be on one device");
}
inline void require_on(const char* op, c10::Device device, const std::optional<at::Tensor>& operand) {
  if (operand) require_on(op, device, *operand);
}
inline void require_on(const char* op, c10::Device device, at::TensorList operands) {
  for (const at::Tensor& each : operands) require_on(op, device, each);
}

/// A scope in which the device of an operator's operands is the current one. Throws UserError if they are on several.
class OnDevice {
 public:
#ifdef PLIMSOLL_CUDA_ON_CPU
  template <typename... Others>
  OnDevice([[maybe_unused]] const char* op, const at::Tensor& tensor, const Others&... others) {
    (require_on(op, tensor.device(), others), ...);
  }
  cudaStream_t stream() const {
    return nullptr;
  }
#else
  template <typename... Others>
  OnDevice(const char* op, const at::Tensor& tensor, const Others&... others) : guard_(device_of(op, tensor)) {
    (require_on(op, tensor.device(), others), ...);
  }
  cudaStream_t stream() const {
    return c10::cuda::getCurrentCUDAStream(guard_.current_device().index()).stream();
  }

 private:
  // The guard itself would refuse another device in words of its own.
  static c10::Device device_of(const char* op, const at::Tensor& tensor) {
    ops::require(tensor.is_cuda(), op, "an operand is on ", tensor.device(),
                 ", another one on a GPU; all must be on one device");
    return tensor.device();
  }

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

#ifdef PLIMSOLL_CUDA_ON_CPU
/// Returns a copy in float32 in memory that no allocator counts: CUDA's matmuls convert nothing in memory.
inline at::Tensor uncounted_float(const at::Tensor& from) {
  auto* const data = new float[static_cast<size_t>(from.numel())];
  return at::from_blob(
             data, from.sizes(), [data](void*) { delete[] data; }, at::TensorOptions().dtype(at::kFloat))
      .copy_(from);
}
#endif

/// Computes sum += a b, or sum = a b if `first`, for matrices. `sum` is float32; a and b have 16 bits.
inline void add_product(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, bool first) {
  at::Tensor out = sum;
#ifdef PLIMSOLL_CUDA_ON_CPU  // libtorch has it for CUDA only
  const at::Tensor wide_a = uncounted_float(a), wide_b = uncounted_float(b);
  first ? at::mm_out(out, wide_a, wide_b) : at::addmm_out(out, sum, wide_a, wide_b);
#else
  first ? at::mm_out(out, a, b, at::kFloat) : at::addmm_out(out, out, a, b, at::kFloat);
#endif
}

}  // namespace plimsoll::cuda
