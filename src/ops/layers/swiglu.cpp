#include "ops/layers/swiglu.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

// The two operators differ in their names and in their arithmetic.
struct Swish {
  static constexpr const char *kName = "plimsoll::swiglu", *kBackwardName = "plimsoll::swiglu_backward";
  static constexpr auto kRows = swiglu_rows;
  static constexpr auto kBackwardRows = swiglu_backward_rows;
};
struct Gelu {
  static constexpr const char *kName = "plimsoll::geglu", *kBackwardName = "plimsoll::geglu_backward";
  static constexpr auto kRows = geglu_rows;
  static constexpr auto kBackwardRows = geglu_backward_rows;
};

}  // namespace

Tensor gated_result(const char* op, const Tensor& gate_up) {
  require_floating(op, "gate_up", gate_up);
  require(gate_up.dim() >= 1 && gate_up.size(-1) % 2 == 0, op, "gate_up has shape ", gate_up.sizes(),
          "; its last dimension must be even: the gate and the other half");
  auto sizes = gate_up.sizes().vec();
  sizes.back() /= 2;
  return at::empty(sizes, gate_up.options());
}

Tensor gated_gradient(const char* op, const Tensor& grad, const Tensor& gate_up) {
  require(
      grad.scalar_type() == gate_up.scalar_type() && grad.dim() == gate_up.dim() && 2 * grad.numel() == gate_up.numel(),
      op, "grad ", grad.sizes(), " does not belong to gate_up ", gate_up.sizes());
  return at::empty(gate_up.sizes(), gate_up.options());
}

namespace {

template <typename Gate>
Tensor empty_result(const Tensor& gate_up) {
  return gated_result(Gate::kName, gate_up);
}

template <typename Gate>
Tensor empty_gradient(const Tensor& grad, const Tensor& gate_up) {
  return gated_gradient(Gate::kBackwardName, grad, gate_up);
}

template <typename Gate>
Tensor gated_cpu(const Tensor& gate_up) {
  Tensor result = empty_result<Gate>(gate_up);
  const Tensor from = as_rows(gate_up);
  const int64_t width = result.size(-1);
  const ConstRows in = const_rows(from);
  const Rows out = rows(result);
  at::parallel_for(0, row_count(result), row_grain(width),
                   [&](int64_t begin, int64_t end) { Gate::kRows(in, out, width, begin, end); });
  return result;
}

template <typename Gate>
Tensor gated_backward_cpu(const Tensor& grad, const Tensor& gate_up) {
  Tensor result = empty_gradient<Gate>(grad, gate_up);
  const Tensor from = as_rows(gate_up), grad_rows = as_rows(grad);
  const int64_t width = grad.size(-1);
  const ConstRows in = const_rows(from), gradient = const_rows(grad_rows);
  const Rows out = rows(result);
  at::parallel_for(0, row_count(grad), row_grain(width),
                   [&](int64_t begin, int64_t end) { Gate::kBackwardRows(gradient, in, out, width, begin, end); });
  return result;
}

template <typename Gate>
Tensor call_gated(const Tensor& gate_up) {
  static const auto handle = operator_handle<Tensor(const Tensor&)>(Gate::kName);
  return handle.call(gate_up);
}

template <typename Gate>
struct Gated : torch::autograd::Function<Gated<Gate>> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& gate_up) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({gate_up});
    return call_gated<Gate>(gate_up);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto handle = gradient_handle<Tensor(const Tensor&, const Tensor&)>(Gate::kName);
    if (!grads[0].defined()) return {Tensor()};
    return {handle.call(grads[0], context->get_saved_variables()[0])};
  }
};

template <typename Gate>
Tensor gated_autograd(const Tensor& gate_up) {
  return Gated<Gate>::apply(gate_up);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("swiglu(Tensor gate_up) -> Tensor");
  m.def("swiglu_backward(Tensor grad, Tensor gate_up) -> Tensor");
  m.def("geglu(Tensor gate_up) -> Tensor");
  m.def("geglu_backward(Tensor grad, Tensor gate_up) -> Tensor");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("swiglu", empty_result<Swish>);
  m.impl("swiglu_backward", empty_gradient<Swish>);
  m.impl("geglu", empty_result<Gelu>);
  m.impl("geglu_backward", empty_gradient<Gelu>);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("swiglu", gated_cpu<Swish>);
  m.impl("swiglu_backward", gated_backward_cpu<Swish>);
  m.impl("geglu", gated_cpu<Gelu>);
  m.impl("geglu_backward", gated_backward_cpu<Gelu>);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("swiglu", gated_autograd<Swish>);
  m.impl("swiglu_backward", torch::autograd::autogradNotImplementedFallback());
  m.impl("geglu", gated_autograd<Gelu>);
  m.impl("geglu_backward", torch::autograd::autogradNotImplementedFallback());
}

Tensor swiglu(const Tensor& gate_up) {
  return call_gated<Swish>(gate_up);
}

Tensor geglu(const Tensor& gate_up) {
  return call_gated<Gelu>(gate_up);
}

}  // namespace plimsoll::ops
