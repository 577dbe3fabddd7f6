#include "ops/layers/rms_norm.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cstring>
#include <tuple>

#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using OutDType = std::optional<at::ScalarType>;
using Forward = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, double, OutDType);
using Backward = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&);

}  // namespace

std::tuple<Tensor, Tensor> rms_norm_results(const Tensor& x, const Tensor& weight, double eps, OutDType out_dtype) {
  constexpr const char* op = "plimsoll::rms_norm";
  require_floating(op, "x", x);
  require_floating(op, "weight", weight);
  const at::ScalarType out = out_dtype.value_or(x.scalar_type());
  require(is_floating(out), op, "out_dtype is ", c10::toString(out), "; it must be a floating type");
  require(x.dim() >= 1 && x.size(-1) > 0 && weight.dim() == 1 && weight.size(0) == x.size(-1), op, "x has shape ",
          x.sizes(), " and weight ", weight.sizes(), "; weight must be as long as the last dimension of x");
  require((x.scalar_type() == at::kDouble) == (weight.scalar_type() == at::kDouble) &&
              (x.scalar_type() == at::kDouble) == (out == at::kDouble),
          op, "x is ", c10::toString(x.scalar_type()), ", weight ", c10::toString(weight.scalar_type()),
          ", the result ", c10::toString(out), "; float64 does not mix with other types");
  auto one_a_row = x.sizes().vec();
  one_a_row.back() = 1;
  return {at::empty(x.sizes(), x.options().dtype(out)),
          at::empty(one_a_row, x.options().dtype(accumulator(x.scalar_type())))};
}

std::tuple<Tensor, Tensor> rms_norm_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                              const Tensor& rstd) {
  require(grad_y.sizes() == x.sizes(), "plimsoll::rms_norm_backward", "grad_y has shape ", grad_y.sizes(), " and x ",
          x.sizes());
  return {at::empty(x.sizes(), x.options()), at::empty(weight.sizes(), weight.options())};
}

namespace {

std::tuple<Tensor, Tensor> rms_norm_cpu(const Tensor& x, const Tensor& weight, double eps, OutDType out_dtype) {
  auto [y, rstd] = rms_norm_results(x, weight, eps, out_dtype);
  const Tensor from = as_rows(x), scale = weight.to(rstd.scalar_type()).contiguous();
  const RmsNorm args{.x = const_rows(from),
                     .y = rows(y),
                     .weight = scale.const_data_ptr(),
                     .rstd = rstd.data_ptr(),
                     .width = x.size(-1),
                     .eps = eps};
  at::parallel_for(0, row_count(x), row_grain(args.width),
                   [&](int64_t begin, int64_t end) { rms_norm_rows(args, begin, end); });
  return {y, rstd};
}

std::tuple<Tensor, Tensor> rms_norm_backward_cpu(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                                 const Tensor& rstd) {
  auto [dx, dweight] = rms_norm_gradients(grad_y, x, weight, rstd);
  const Tensor grad = as_rows(grad_y), from = as_rows(x), scale = weight.to(rstd.scalar_type()).contiguous();
  const int64_t width = x.size(-1), count = row_count(x), block = norm_block_rows(count), blocks = div_up(count, block);
  const Tensor partials = at::empty({blocks, width}, rstd.options());
  const RmsNormBackward args{.grad_y = const_rows(grad),
                             .x = const_rows(from),
                             .dx = rows(dx),
                             .weight = scale.const_data_ptr(),
                             .rstd = rstd.const_data_ptr(),
                             .width = width};
  auto* partial = static_cast<char*>(partials.data_ptr());
  const int64_t partial_bytes = width * partials.element_size();
  at::parallel_for(0, blocks, div_up(row_grain(width), block), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      std::memset(partial + b * partial_bytes, 0, static_cast<size_t>(partial_bytes));
      rms_norm_backward_rows(args, partial + b * partial_bytes, b * block, std::min(count, (b + 1) * block));
    }
  });
  at::parallel_for(0, width, 1024, [&](int64_t begin, int64_t end) {
    sum_partials(partial, blocks, width, dtype_of(partials), dweight.data_ptr(), dtype_of(dweight), begin, end);
  });
  return {dx, dweight};
}

std::tuple<Tensor, Tensor> call_rms_norm(const Tensor& x, const Tensor& weight, double eps, OutDType out_dtype) {
  static const auto handle = operator_handle<Forward>("plimsoll::rms_norm");
  return handle.call(x, weight, eps, out_dtype);
}

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Tensor& x,
                                                const Tensor& weight, double eps, OutDType out_dtype) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [y, rstd] = call_rms_norm(x, weight, eps, out_dtype);
    context->save_for_backward({x, weight, rstd});
    context->mark_non_differentiable({rstd});
    return {y, rstd};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto handle = gradient_handle<Backward>("plimsoll::rms_norm");
    if (!grads[0].defined()) return {Tensor(), Tensor(), Tensor(), Tensor()};
    const auto saved = context->get_saved_variables();
    auto [dx, dweight] = handle.call(grads[0], saved[0], saved[1], saved[2]);
    return {dx, dweight, Tensor(), Tensor()};
  }
};

std::tuple<Tensor, Tensor> rms_norm_autograd(const Tensor& x, const Tensor& weight, double eps, OutDType out_dtype) {
  auto results = RmsNormFunction::apply(x, weight, eps, out_dtype);
  return {results[0], results[1]};
}

template <c10::DeviceType device>
std::tuple<Tensor, Tensor> rms_norm_autocast(const Tensor& x, const Tensor& weight, double eps, OutDType out_dtype) {
  const AutocastOff off(device);
  if (!out_dtype && x.scalar_type() != at::kDouble) out_dtype = at::autocast::get_autocast_dtype(device);
  return call_rms_norm(x, weight, eps, out_dtype);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps, ScalarType? out_dtype=None) -> (Tensor y, Tensor rstd)");
  m.def("rms_norm_backward(Tensor grad_y, Tensor x, Tensor weight, Tensor rstd) -> (Tensor dx, Tensor dweight)");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("rms_norm", rms_norm_results);
  m.impl("rms_norm_backward", rms_norm_gradients);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("rms_norm", rms_norm_cpu);
  m.impl("rms_norm_backward", rms_norm_backward_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("rms_norm", rms_norm_autograd);
  m.impl("rms_norm_backward", torch::autograd::autogradNotImplementedFallback());
}
PLIMSOLL_AUTOCAST("rms_norm", rms_norm_autocast)

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, OutDType out_dtype) {
  return std::get<0>(call_rms_norm(x, weight, eps, out_dtype));
}

}  // namespace plimsoll::ops
