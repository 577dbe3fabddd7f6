// Declares the CUDA launchers of SwiGLU and GeGLU.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/kernel_arguments.h"

namespace plimsoll::cuda {

enum class Gate : uint8_t { silu, gelu };

/// Computes y [rows, width] = gate(first half) * second half of gate_up [rows, 2 width].
void launch_gated(Gate gate, const ops::ConstRows& gate_up, const ops::Rows& y, int64_t rows, int64_t width,
                  cudaStream_t stream);

/// Computes the gradient of gate_up from `grad` [rows, width], the gradient of y.
void launch_gated_backward(Gate gate, const ops::ConstRows& grad, const ops::ConstRows& gate_up,
                           const ops::Rows& grad_gate_up, int64_t rows, int64_t width, cudaStream_t stream);

}  // namespace plimsoll::cuda
