// Checks and results of the causal convolution, for the kernels of every device. Each throws UserError where the
// tensors do not belong together, and touches no data.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace plimsoll::ops {

at::Tensor empty_causal_conv1d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool reverse);
/// Of x, weight and bias.
std::tuple<at::Tensor, at::Tensor, at::Tensor> empty_causal_conv1d_gradients(const at::Tensor& grad_y,
                                                                             const at::Tensor& x,
                                                                             const at::Tensor& weight,
                                                                             const at::Tensor& bias, bool reverse);
/// [batch, time, channels]: the tensor itself, or a copy, with its channels side by side.
at::Tensor conv_side_by_side(const at::Tensor& tensor);

}  // namespace plimsoll::ops
