#include "ops/rope.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>

#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

Tensor empty_result(const Tensor& x, int64_t position, double theta, bool inverse) {
  constexpr const char* op = "plimsoll::rope";
  require_floating(op, "x", x);
  require(x.dim() == 4 && x.size(3) % 2 == 0, op, "x has shape ", x.sizes(),
          "; it must be [batch, tokens, heads, width] with an even width");
  require(theta > 0, op, "theta is ", theta, "; it must be positive");
  return at::empty(x.sizes(), x.options());
}

Tensor rope_cpu(const Tensor& x, int64_t position, double theta, bool inverse) {
  Tensor result = empty_result(x, position, theta, inverse);
  if (result.numel() == 0) return result;
  const Tensor from = x.stride(3) == 1 ? x : x.contiguous();
  const int64_t width = x.size(3), half = width / 2;
  const Tensor frequencies = at::empty({half}, x.options().dtype(at::kDouble));
  auto* frequency = frequencies.mutable_data_ptr<double>();
  for (int64_t i = 0; i < half; ++i)
    frequency[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
  const Rope args{.x = from.const_data_ptr(),
                  .out = result.data_ptr(),
                  .dtype = dtype_of(x),
                  .batch = x.size(0),
                  .tokens = x.size(1),
                  .heads = x.size(2),
                  .width = width,
                  .batch_stride = from.stride(0),
                  .token_stride = from.stride(1),
                  .head_stride = from.stride(2),
                  .frequencies = frequency,
                  .position = position,
                  .inverse = inverse};
  at::parallel_for(0, args.tokens, row_grain(args.batch * args.heads * width),
                   [&](int64_t begin, int64_t end) { rope_tokens(args, begin, end); });
  return result;
}

Tensor call_rope(const Tensor& x, int64_t position, double theta, bool inverse) {
  static const auto handle = operator_handle<Tensor(const Tensor&, int64_t, double, bool)>("plimsoll::rope");
  return handle.call(x, position, theta, inverse);
}

struct RopeFunction : torch::autograd::Function<RopeFunction> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, int64_t position, double theta,
                        bool inverse) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["position"] = position;
    context->saved_data["theta"] = theta;
    context->saved_data["inverse"] = inverse;
    return call_rope(x, position, theta, inverse);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    if (!grads[0].defined()) return {Tensor(), Tensor(), Tensor(), Tensor()};
    auto& saved = context->saved_data;
    return {call_rope(grads[0], saved["position"].toInt(), saved["theta"].toDouble(), !saved["inverse"].toBool()),
            Tensor(), Tensor(), Tensor()};
  }
};

Tensor rope_autograd(const Tensor& x, int64_t position, double theta, bool inverse) {
  return RopeFunction::apply(x, position, theta, inverse);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("rope(Tensor x, int position, float theta, bool inverse) -> Tensor");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("rope", empty_result);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("rope", rope_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("rope", rope_autograd);
}

Tensor rope(const Tensor& x, int64_t position, double theta) {
  return call_rope(x, position, theta, false);
}

}  // namespace plimsoll::ops
