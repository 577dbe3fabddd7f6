// Declares the CPU kernel of linear_cross_entropy, and the choice of the kernel that the loss head uses on this
// machine.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/loss/linear_cross_entropy_blocks.h"

namespace plimsoll::ops {

/// Computes the losses, and gradients, in chunks of tokens with libtorch's matmuls.
at::Tensor losses_by_libtorch(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                              int64_t ignore_index, double softcap, const at::Tensor& grad_x,
                              const at::Tensor& grad_weight);

/// Returns true if this machine computes the loss in blocks and not by libtorch's matmuls, with or without gradients.
/// The shape must be large enough, and the processor must have AVX2 (float32) or matmuls of bfloat16 pairs. Which of
/// the two is faster is measured once (ops/kernel_choice.h).
bool loss_in_blocks(const LossShape& shape);

/// Makes the choices of the loss head that this machine has, so that chosen_kernels() lists them.
void choose_loss_kernels();

/// Writes the mean loss and the number of targets that count (at least 1) to the scalars `loss` and `count`; `count`
/// may be undefined. If `grad_x` and `grad_weight` have elements, it writes the gradients of the sum of the losses to
/// them.
void linear_cross_entropy_cpu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                              int64_t ignore_index, double softcap, const at::Tensor& loss, const at::Tensor& count,
                              const at::Tensor& grad_x, const at::Tensor& grad_weight);

}  // namespace plimsoll::ops
