#include "ops/scan/causal_conv1d.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>

#include "ops/op_support.h"
#include "ops/scan/conv_kernels_cpu.h"

namespace plimsoll::ops {

using at::Tensor;
using ConvGradients = std::tuple<Tensor, Tensor, Tensor>;

Tensor empty_causal_conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, bool reverse) {
  constexpr const char* op = "plimsoll::causal_conv1d";
  require_floating(op, "x", x);
  require_floating(op, "weight", weight);
  require(
      x.dim() == 3 && weight.dim() == 2 && weight.size(0) == x.size(2) && bias.sizes() == weight.sizes().slice(0, 1),
      op, "x has shape ", x.sizes(), ", weight ", weight.sizes(), " and bias ", bias.sizes(),
      "; they must be [batch, time, channels], [channels, taps] and [channels]");
  require(weight.size(1) >= 1 && weight.size(1) <= kConvTaps, op, "weight has ", weight.size(1),
          " taps; allowed are 1 to ", kConvTaps);
  require(x.numel() > 0, op, "x ", x.sizes(), " is empty");
  require((x.scalar_type() == at::kDouble) == (weight.scalar_type() == at::kDouble) &&
              weight.scalar_type() == bias.scalar_type(),
          op, "x is ", c10::toString(x.scalar_type()), ", weight ", c10::toString(weight.scalar_type()), " and bias ",
          c10::toString(bias.scalar_type()), "; weight and bias must be alike, and float64 does not mix");
  return at::empty(x.sizes(), x.options());
}

ConvGradients empty_causal_conv1d_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                            const Tensor& bias, bool reverse) {
  require(grad_y.sizes() == x.sizes() && grad_y.scalar_type() == x.scalar_type(), "plimsoll::causal_conv1d_backward",
          "grad_y is ", c10::toString(grad_y.scalar_type()), " ", grad_y.sizes(), " and x ",
          c10::toString(x.scalar_type()), " ", x.sizes(), "; they must be alike");
  return {empty_causal_conv1d(x, weight, bias, reverse), at::empty(weight.sizes(), weight.options()),
          at::empty(bias.sizes(), bias.options())};
}

Tensor conv_inner_contiguous(const Tensor& tensor) {
  return tensor.stride(2) == 1 || tensor.size(2) == 1 ? tensor : contiguous_copy(tensor);
}

namespace {

using ConvForward = Tensor(const Tensor&, const Tensor&, const Tensor&, bool);
using ConvBackward = ConvGradients(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool);

/// Returns [kConvTaps + 1, channels]: zeros before a short filter, the filter, and the bias.
Tensor taps_of(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const int64_t channels = weight.size(0), taps = weight.size(1);
  Tensor all = at::empty({kConvTaps + 1, channels}, x.options().dtype(accumulator(x.scalar_type())));
  if (taps < kConvTaps) all.narrow(0, 0, kConvTaps - taps).zero_();
  // The copy is tap by tap: to transpose a whole matrix, libtorch would allocate a buffer of its own.
  for (int64_t k = 0; k < taps; ++k) all.select(0, kConvTaps - taps + k).copy_(weight.select(1, k));
  all.select(0, kConvTaps).copy_(bias);
  return all;
}

CausalConv arguments(const Tensor& x, const Tensor& taps, bool reverse) {
  return {.x = x.const_data_ptr(),
          .dtype = dtype_of(x),
          .batch_stride = x.stride(0),
          .time_stride = x.stride(1),
          .taps = taps.const_data_ptr(),
          .batch = x.size(0),
          .time = x.size(1),
          .channels = x.size(2),
          .reverse = reverse};
}

int64_t blocks_of(const Tensor& x) {
  return x.size(0) * div_up(x.size(1), conv_block(x.size(1)));
}

Tensor causal_conv1d_cpu(const Tensor& x, const Tensor& weight, const Tensor& bias, bool reverse) {
  Tensor y = empty_causal_conv1d(x, weight, bias, reverse);
  const Tensor from = conv_inner_contiguous(x), taps = taps_of(x, weight, bias);
  const CausalConv args = arguments(from, taps, reverse);
  void* to = y.data_ptr();
  at::parallel_for(0, blocks_of(x), 1, [&](int64_t begin, int64_t end) { causal_conv_blocks(args, to, begin, end); });
  return y;
}

ConvGradients causal_conv1d_backward_cpu(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                         const Tensor& bias, bool reverse) {
  auto results = empty_causal_conv1d_gradients(grad_y, x, weight, bias, reverse);
  const auto& [dx, dweight, dbias] = results;
  const Tensor from = conv_inner_contiguous(x), grad = conv_inner_contiguous(grad_y), taps = taps_of(x, weight, bias);
  const CausalConv args = arguments(from, taps, reverse);
  const int64_t blocks = blocks_of(x), channels = x.size(2), used = weight.size(1);
  const Tensor shares = at::empty({blocks, kConvTaps + 1, channels}, taps.options());
  void *to = dx.data_ptr(), *parts = shares.data_ptr();
  at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    causal_conv_backward_blocks(args, grad.const_data_ptr(), grad.stride(0), grad.stride(1), to, parts, begin, end);
  });
  // The sums overwrite the taps.
  const int64_t width = (kConvTaps + 1) * channels;
  at::parallel_for(0, width, 1024, [&](int64_t begin, int64_t end) {
    sum_partials(parts, blocks, width, dtype_of(shares), taps.data_ptr(), dtype_of(taps), begin, end);
  });
  for (int64_t k = 0; k < used; ++k) dweight.select(1, k).copy_(taps.select(0, kConvTaps - used + k));
  dbias.copy_(taps.select(0, kConvTaps));
  return results;
}

Tensor call_causal_conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, bool reverse) {
  static const auto handle = operator_handle<ConvForward>("plimsoll::causal_conv1d");
  return handle.call(x, weight, bias, reverse);
}

struct CausalConv1d : torch::autograd::Function<CausalConv1d> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, bool reverse) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, weight, bias});
    context->saved_data["reverse"] = reverse;
    return call_causal_conv1d(x, weight, bias, reverse);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto handle = gradient_handle<ConvBackward>("plimsoll::causal_conv1d");
    if (!grads[0].defined()) return {Tensor(), Tensor(), Tensor(), Tensor()};
    const auto saved = context->get_saved_variables();
    auto [dx, dweight, dbias] =
        handle.call(grads[0], saved[0], saved[1], saved[2], context->saved_data["reverse"].toBool());
    return {dx, dweight, dbias, Tensor()};
  }
};

Tensor causal_conv1d_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias, bool reverse) {
  return CausalConv1d::apply(x, weight, bias, reverse);
}

template <c10::DeviceType device>
Tensor causal_conv1d_autocast(const Tensor& x, const Tensor& weight, const Tensor& bias, bool reverse) {
  const AutocastOff off(device);
  return call_causal_conv1d(autocast(x, device), weight, bias, reverse);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("causal_conv1d(Tensor x, Tensor weight, Tensor bias, bool reverse=False) -> Tensor");
  m.def(
      "causal_conv1d_backward(Tensor grad_y, Tensor x, Tensor weight, Tensor bias, bool reverse) -> (Tensor dx, Tensor "
      "dweight, Tensor dbias)");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("causal_conv1d", empty_causal_conv1d);
  m.impl("causal_conv1d_backward", empty_causal_conv1d_gradients);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("causal_conv1d", causal_conv1d_cpu);
  m.impl("causal_conv1d_backward", causal_conv1d_backward_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("causal_conv1d", causal_conv1d_autograd);
  m.impl("causal_conv1d_backward", torch::autograd::autogradNotImplementedFallback());
}
PLIMSOLL_AUTOCAST("causal_conv1d", causal_conv1d_autocast)

Tensor causal_conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, bool reverse) {
  return call_causal_conv1d(x, weight, bias, reverse);
}

}  // namespace plimsoll::ops
