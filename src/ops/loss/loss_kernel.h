// Declares the kernel that the loss head uses on this machine, and libtorch's variant of it on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/loss/linear_cross_entropy_blocks_plan.h"

namespace plimsoll::ops {

/// Computes the losses, and gradients, in chunks of tokens with libtorch's matmuls.
at::Tensor losses_by_libtorch(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                              int64_t ignore_index, double softcap, const at::Tensor& grad_x,
                              const at::Tensor& grad_weight);

/// Returns true if this machine computes the loss in blocks and not by libtorch's matmuls, with or without gradients.
/// The shape must be large enough, and the processor must have AVX2 (float32) or matmuls of bfloat16 pairs. Which of
/// the two is faster is measured once (ops/arithmetic/kernel_choice.h).
bool loss_in_blocks(const LossShape& shape);

/// Makes the choices of the loss head that this machine has, so that chosen_kernels() lists them.
void choose_loss_kernels();

}  // namespace plimsoll::ops
