// Declares SwiGLU and GeGLU (N. Shazeer, "GLU Variants Improve Transformer"): the gate and the product of a
// feed-forward layer as one operator.
#pragma once

#include <ATen/core/Tensor.h>

namespace plimsoll::ops {

/// Computes silu(gate) * up for gate_up [..., 2F] = (gate, up), concatenated. Returns [..., F], contiguous, in
/// gate_up's dtype (arithmetic in float32, float64 for float64). For backward it keeps only gate_up. Operators
/// plimsoll::swiglu and plimsoll::swiglu_backward. Throws UserError if the last dimension is odd.
at::Tensor swiglu(const at::Tensor& gate_up);

/// Computes the same with gelu instead of silu, in its tanh form, x / (1 + exp(-2u)) with u = sqrt(2 / pi) (x +
/// 0.044715 x^3) (D. Hendrycks and K. Gimpel, "Gaussian Error Linear Units"). Operators plimsoll::geglu and
/// plimsoll::geglu_backward.
at::Tensor geglu(const at::Tensor& gate_up);

}  // namespace plimsoll::ops
