// Declares linear layers over a frozen weight of 8 or 4 bits, which is dequantized in pieces as it is used. The layout
// is described in ops/layers/quantized_plan.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <tuple>

#include "ops/layers/quantized_kernels_cpu.h"

namespace plimsoll::ops {

struct QuantizedTensors {
  at::Tensor codes;   ///< int8 [rows, width], or uint8 [rows, ceil(width / 2)]
  at::Tensor scales;  ///< float32 [rows, blocks], or uint8
  at::Tensor second;  ///< float32 [groups + 1] if the scales are doubly quantized; else undefined
};

/// Quantizes `weight` [rows, width] of a floating type in blocks of 64 along its rows. `format` is "nf4" (NormalFloat4,
/// Dettmers et al. 2023, "QLoRA", section 3) or "int8". "int8" is scaled by the block's largest (Dettmers et al. 2022,
/// "8-bit Optimizers via Block-wise Quantization"). Throws UserError for other formats and shapes.
QuantizedTensors quantize_weight(const at::Tensor& weight, const std::string& format, bool double_scales);

/// Returns the weight [rows, width] in `dtype`, rounded once.
at::Tensor dequantize_weight(const QuantizedTensors& weight, int64_t width, c10::ScalarType dtype);

/// Returns x [..., width] times the weight's transpose: [..., rows], in the type of x. Only the gradient of x is
/// computed. Nothing of x is kept for it, and the whole weight is never in memory. Throws UserError for shapes and
/// types that do not belong together.
at::Tensor quantized_linear(const at::Tensor& x, const QuantizedTensors& weight);

// The checks and results of the operators, for the kernels of every device. Each function throws UserError if the
// tensors do not belong together, and accesses no data.

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
