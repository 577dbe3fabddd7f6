// Declares SwiGLU and GeGLU (N. Shazeer, "GLU Variants Improve Transformer"): the gate and the product of a
// feed-forward layer as one operator, and what its kernels share. No libtorch, because the CUDA kernels include this
// header.
#pragma once

#include "ops/kernel_arguments.h"

struct CUstream_st;
namespace at {
class Tensor;
}

namespace plimsoll::ops {

/// Computes silu(gate) * up for gate_up [..., 2F] = (gate, up), concatenated. Returns [..., F], contiguous, in
/// gate_up's dtype (arithmetic in float32, float64 for float64). For backward it keeps only gate_up. Operators
/// plimsoll::swiglu and plimsoll::swiglu_backward. Throws UserError if the last dimension is odd.
at::Tensor swiglu(const at::Tensor& gate_up);

/// Computes the same with gelu instead of silu, in its tanh form, x / (1 + exp(-2u)) with u = sqrt(2 / pi) (x +
/// 0.044715 x^3) (D. Hendrycks and K. Gimpel, "Gaussian Error Linear Units"). Operators plimsoll::geglu and
/// plimsoll::geglu_backward.
at::Tensor geglu(const at::Tensor& gate_up);

/// Return the result and the gradient of gate_up, not filled yet; they are also the Meta kernels. `op` is the
/// operator's name in messages. Throw UserError for tensors that do not belong together.
at::Tensor gated_result(const char* op, const at::Tensor& gate_up);
at::Tensor gated_gradient(const char* op, const at::Tensor& grad, const at::Tensor& gate_up);

}  // namespace plimsoll::ops

namespace plimsoll::cuda {

enum class Gate : uint8_t { silu, gelu };

/// Computes y [rows, width] = gate(first half) * second half of gate_up [rows, 2 width].
void launch_gated(Gate gate, const ops::ConstRows& gate_up, const ops::Rows& y, int64_t rows, int64_t width,
                  CUstream_st* stream);

/// Computes the gradient of gate_up from `grad` [rows, width], the gradient of y.
void launch_gated_backward(Gate gate, const ops::ConstRows& grad, const ops::ConstRows& gate_up,
                           const ops::Rows& grad_gate_up, int64_t rows, int64_t width, CUstream_st* stream);

}  // namespace plimsoll::cuda
