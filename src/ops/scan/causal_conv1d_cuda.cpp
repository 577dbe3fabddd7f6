#include "ops/cuda_op_support.h"
#include "ops/scan/causal_conv1d.h"
#include "ops/scan/causal_conv1d_launch.h"

namespace plimsoll::cuda {
namespace {

using at::Tensor;

CausalConv arguments(const Tensor& x, const Tensor& weight, const Tensor& bias, bool reverse) {
  return {.x = x.const_data_ptr(),
          .dtype = ops::dtype_of(x),
          .batch_stride = x.stride(0),
          .time_stride = x.stride(1),
          .weight = weight.const_data_ptr(),
          .bias = bias.const_data_ptr(),
          .weight_dtype = ops::dtype_of(weight),
          .channel_stride = weight.stride(0),
          .tap_stride = weight.stride(1),
          .bias_stride = bias.stride(0),
          .batch = x.size(0),
          .time = x.size(1),
          .channels = x.size(2),
          .taps = weight.size(1),
          .reverse = reverse};
}

Tensor causal_conv1d_cuda(const Tensor& x, const Tensor& weight, const Tensor& bias, bool reverse) {
  const OnDevice device(x);
  Tensor y = ops::empty_causal_conv1d(x, weight, bias, reverse);
  const Tensor from = ops::conv_inner_contiguous(x);
  launch_causal_conv(arguments(from, weight, bias, reverse), y.data_ptr(), device.stream());
  return y;
}

std::tuple<Tensor, Tensor, Tensor> causal_conv1d_backward_cuda(const Tensor& grad_y, const Tensor& x,
                                                               const Tensor& weight, const Tensor& bias, bool reverse) {
  const OnDevice device(x);
  auto results = ops::empty_causal_conv1d_gradients(grad_y, x, weight, bias, reverse);
  const auto& [dx, dweight, dbias] = results;
  const Tensor from = ops::conv_inner_contiguous(x), grad = ops::conv_inner_contiguous(grad_y);
  const Tensor shares = at::empty({conv_tasks(x.size(0), x.size(1)), ops::kConvTaps + 1, x.size(2)},
                                  x.options().dtype(ops::accumulator(x.scalar_type())));
  launch_causal_conv_backward(arguments(from, weight, bias, reverse), grad.const_data_ptr(), grad.stride(0),
                              grad.stride(1), dx.data_ptr(), dweight.data_ptr(), dbias.data_ptr(), shares.data_ptr(),
                              device.stream());
  return results;
}

}  // namespace

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("causal_conv1d", causal_conv1d_cuda);
  m.impl("causal_conv1d_backward", causal_conv1d_backward_cuda);
}

}  // namespace plimsoll::cuda
