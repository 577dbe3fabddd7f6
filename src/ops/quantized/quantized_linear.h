// Declares linear layers over a frozen weight of 8 or 4 bits, which is dequantized in pieces as it is used. The layout
// is described in ops/quantized/quantized_plan.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

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

}  // namespace plimsoll::ops
