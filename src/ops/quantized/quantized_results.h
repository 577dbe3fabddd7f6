// Declares the checks and results of the operators on quantized weights, for the kernels of every device. Each throws
// UserError if the tensors do not belong together, and accesses no data.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "ops/quantized/quantized_kernels_cpu.h"

namespace plimsoll::ops {

/// Returns unfilled codes and scales.
std::tuple<at::Tensor, at::Tensor> empty_quantized(const at::Tensor& weight, bool four_bits);
/// Returns unfilled codes and second scales.
std::tuple<at::Tensor, at::Tensor> empty_scale_codes(const at::Tensor& scales);
at::Tensor empty_dequantized(const at::Tensor& codes, const at::Tensor& scales, const std::optional<at::Tensor>& second,
                             int64_t width, at::ScalarType dtype);
at::Tensor empty_quantized_linear(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales,
                                  const std::optional<at::Tensor>& second);
at::Tensor empty_quantized_linear_gradient(const at::Tensor& grad, const at::Tensor& codes, const at::Tensor& scales,
                                           const std::optional<at::Tensor>& second, int64_t width);

/// Returns a view of checked tensors.
QuantizedWeight quantized_view(const at::Tensor& codes, const at::Tensor& scales,
                               const std::optional<at::Tensor>& second, int64_t width);
/// Returns x as a matrix of its last dimension, copied if it is not contiguous.
at::Tensor as_matrix(const at::Tensor& x);

}  // namespace plimsoll::ops
