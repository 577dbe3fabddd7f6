#include "ops/swiglu.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

Tensor empty_result(const Tensor& gate_up) {
  constexpr const char* op = "plimsoll::swiglu";
  require_floating(op, "gate_up", gate_up);
  require(gate_up.dim() >= 1 && gate_up.size(-1) % 2 == 0, op, "gate_up has shape ", gate_up.sizes(),
          "; its last dimension must be even: the gate and the other half");
  auto sizes = gate_up.sizes().vec();
  sizes.back() /= 2;
  return at::empty(sizes, gate_up.options());
}

Tensor empty_gradient(const Tensor& grad, const Tensor& gate_up) {
  require(
      grad.scalar_type() == gate_up.scalar_type() && grad.dim() == gate_up.dim() && 2 * grad.numel() == gate_up.numel(),
      "plimsoll::swiglu_backward", "grad ", grad.sizes(), " does not belong to gate_up ", gate_up.sizes());
  return at::empty(gate_up.sizes(), gate_up.options());
}

Tensor swiglu_cpu(const Tensor& gate_up) {
  Tensor result = empty_result(gate_up);
  const Tensor from = as_rows(gate_up);
  const int64_t width = result.size(-1);
  const ConstRows in = const_rows(from);
  const Rows out = rows(result);
  at::parallel_for(0, row_count(result), row_grain(width),
                   [&](int64_t begin, int64_t end) { swiglu_rows(in, out, width, begin, end); });
  return result;
}

Tensor swiglu_backward_cpu(const Tensor& grad, const Tensor& gate_up) {
  Tensor result = empty_gradient(grad, gate_up);
  const Tensor from = as_rows(gate_up), grad_rows = as_rows(grad);
  const int64_t width = grad.size(-1);
  const ConstRows in = const_rows(from), gradient = const_rows(grad_rows);
  const Rows out = rows(result);
  at::parallel_for(0, row_count(grad), row_grain(width),
                   [&](int64_t begin, int64_t end) { swiglu_backward_rows(gradient, in, out, width, begin, end); });
  return result;
}

Tensor call_swiglu(const Tensor& gate_up) {
  static const auto handle = operator_handle<Tensor(const Tensor&)>("plimsoll::swiglu");
  return handle.call(gate_up);
}

struct Swiglu : torch::autograd::Function<Swiglu> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& gate_up) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({gate_up});
    return call_swiglu(gate_up);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto handle = operator_handle<Tensor(const Tensor&, const Tensor&)>("plimsoll::swiglu_backward");
    if (!grads[0].defined()) return {Tensor()};
    return {handle.call(grads[0], context->get_saved_variables()[0])};
  }
};

Tensor swiglu_autograd(const Tensor& gate_up) {
  return Swiglu::apply(gate_up);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("swiglu(Tensor gate_up) -> Tensor");
  m.def("swiglu_backward(Tensor grad, Tensor gate_up) -> Tensor");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("swiglu", empty_result);
  m.impl("swiglu_backward", empty_gradient);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("swiglu", swiglu_cpu);
  m.impl("swiglu_backward", swiglu_backward_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("swiglu", swiglu_autograd);
  m.impl("swiglu_backward", torch::autograd::autogradNotImplementedFallback());
}

Tensor swiglu(const Tensor& gate_up) {
  return call_swiglu(gate_up);
}

}  // namespace plimsoll::ops
