// Linear layers over a frozen weight of 8 or 4 bits, taken apart in pieces as it is used. The layout is described in
// ops/quantized/quantized_plan.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace plimsoll::ops {

struct QuantizedTensors {
  at::Tensor codes;   ///< int8 [rows, width], or uint8 [rows, ceil(width / 2)]
  at::Tensor scales;  ///< float32 [rows, blocks], or uint8
  at::Tensor second;  ///< undefined, or float32 [groups + 1]: the scales are doubly quantised
};

/// Quantises `weight` [rows, width] of a floating type in blocks of 64 along its rows. `format`: "nf4" (NormalFloat4,
/// Dettmers et al. 2023, "QLoRA", section 3) or "int8" (scaled by the block's largest, Dettmers et al. 2022, "8-bit
/// Optimizers via Block-wise Quantization"). Throws UserError for other formats and shapes.
QuantizedTensors quantize_weight(const at::Tensor& weight, const std::string& format, bool double_scales);

/// The weight [rows, width] in `dtype`, rounded once.
at::Tensor dequantize_weight(const QuantizedTensors& weight, int64_t width, c10::ScalarType dtype);

/// x [..., width] times the weight's transpose: [..., rows], in the type of x. The gradient of x alone is computed;
/// nothing of x is kept for it, and the weight is never whole in memory. Throws UserError for shapes and types that do
/// not go together.
at::Tensor quantized_linear(const at::Tensor& x, const QuantizedTensors& weight);

}  // namespace plimsoll::ops
