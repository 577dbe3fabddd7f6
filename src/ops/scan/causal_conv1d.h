// Declares a depthwise causal convolution along time with SiLU as one operator (A. Gu and T. Dao 2023, Mamba, section
// 3.4).
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace plimsoll::ops {

/// Computes silu(bias_c + sum_k weight_ck x_{t - W + 1 + k, c}) for x [batch, time, channels], weight [channels, W]
/// with W of 1 to 4, bias [channels]. Positions before the first count as 0. `reverse` runs from the last position to
/// the first: with x_{t + W - 1 - k}. Arithmetic is float32 (float64 for float64). The result is contiguous and of x's
/// type; under autocast x is cast, weight and bias are not. For backward it keeps only x, without a copy even if x is a
/// slice of wider rows.
/// Operators plimsoll::causal_conv1d and plimsoll::causal_conv1d_backward. Throws UserError if the shapes do not agree.
at::Tensor causal_conv1d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool reverse = false);

// The checks and results of the causal convolution, for the kernels of every device. Each throws UserError if
// the tensors do not belong together, and accesses no data.

at::Tensor empty_causal_conv1d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool reverse);
/// Returns the unfilled gradients of x, weight and bias.
std::tuple<at::Tensor, at::Tensor, at::Tensor> empty_causal_conv1d_gradients(const at::Tensor& grad_y,
                                                                             const at::Tensor& x,
                                                                             const at::Tensor& weight,
                                                                             const at::Tensor& bias, bool reverse);
/// Returns the tensor [batch, time, channels] itself, or a copy with contiguous channels.
at::Tensor conv_inner_contiguous(const at::Tensor& tensor);

}  // namespace plimsoll::ops
