// Declares the checks and results of the causal convolution, for the kernels of every device. Each throws UserError if
// the tensors do not belong together, and accesses no data.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace plimsoll::ops {

at::Tensor empty_causal_conv1d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool reverse);
/// Returns the unfilled gradients of x, weight and bias.
std::tuple<at::Tensor, at::Tensor, at::Tensor> empty_causal_conv1d_gradients(const at::Tensor& grad_y,
                                                                             const at::Tensor& x,
                                                                             const at::Tensor& weight,
                                                                             const at::Tensor& bias, bool reverse);
/// Returns the tensor [batch, time, channels] itself, or a copy with contiguous channels.
at::Tensor conv_inner_contiguous(const at::Tensor& tensor);

}  // namespace plimsoll::ops
