// Implements rope, swiglu and geglu on a CUDA device.

#include "ops/cuda_op_support.h"
#include "ops/layers/rope.h"
#include "ops/layers/swiglu.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

Tensor rope_cuda(const Tensor& x, int64_t position, double theta, bool inverse, at::ArrayRef<double> scaling) {
  Tensor result = rope_result(x, position, theta, inverse, scaling);
  const cuda::OnDevice on(x);
  const Tensor from = x.stride(3) == 1 ? x : x.contiguous();
  const std::vector<double> frequencies = rope_frequencies(x.size(3), theta, scaling);
  cuda::launch_rope(rope_arguments(from, result, frequencies.data(), position, inverse), on.stream());
  return result;
}

template <cuda::Gate gate>
Tensor gated_cuda(const Tensor& gate_up) {
  Tensor result = gated_result(gate == cuda::Gate::silu ? "plimsoll::swiglu" : "plimsoll::geglu", gate_up);
  const cuda::OnDevice on(gate_up);
  const Tensor from = as_rows(gate_up);
  cuda::launch_gated(gate, const_rows(from), rows(result), row_count(result), result.size(-1), on.stream());
  return result;
}

template <cuda::Gate gate>
Tensor gated_backward_cuda(const Tensor& grad, const Tensor& gate_up) {
  Tensor result = gated_gradient(gate == cuda::Gate::silu ? "plimsoll::swiglu_backward" : "plimsoll::geglu_backward",
                                 grad, gate_up);
  const cuda::OnDevice on(gate_up);
  const Tensor from = as_rows(gate_up), grad_rows = as_rows(grad);
  cuda::launch_gated_backward(gate, const_rows(grad_rows), const_rows(from), rows(result), row_count(grad),
                              grad.size(-1), on.stream());
  return result;
}

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("rope", rope_cuda);
  m.impl("swiglu", gated_cuda<cuda::Gate::silu>);
  m.impl("swiglu_backward", gated_backward_cuda<cuda::Gate::silu>);
  m.impl("geglu", gated_cuda<cuda::Gate::gelu>);
  m.impl("geglu_backward", gated_backward_cuda<cuda::Gate::gelu>);
}

}  // namespace
}  // namespace plimsoll::ops
