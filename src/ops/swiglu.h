// SwiGLU (N. Shazeer, "GLU Variants Improve Transformer"): the gate and the product of a feed-forward layer, as one
// operator.
#pragma once

#include <ATen/core/Tensor.h>

namespace plimsoll::ops {

/// silu(gate) * up for gate_up [..., 2F] = (gate, up) side by side; returns [..., F], contiguous, in gate_up's dtype
/// (arithmetic in float32, float64 for float64). For backward it keeps gate_up and nothing else.
/// Operators plimsoll::swiglu and plimsoll::swiglu_backward. Throws UserError where the last dimension is odd.
at::Tensor swiglu(const at::Tensor& gate_up);

}  // namespace plimsoll::ops
