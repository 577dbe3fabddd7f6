// Declares the loss head of a language model: projection to the vocabulary and cross entropy as one operator. It never
// holds all logits (the idea is Liger-Kernel's fused linear cross entropy).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace plimsoll::ops {

/// Computes the mean over tokens of -log softmax(x weight^T)[target], for x [..., D], weight [V, D] and int64 targets
/// [...]. Returns a scalar, float32 (float64 for float64). Tokens whose target is `ignore_index` do not count; if all
/// are ignored the loss and the gradients are 0. With `softcap` c > 0 the logits are c tanh(x weight^T / c) instead
/// (Gemma 2).
///
/// The operator works on chunks of tokens whose logits take about 64 MiB (up to 256 MiB on a GPU). It computes the
/// gradients in forward, while a chunk's logits exist. It keeps the requested gradients of x and weight instead of
/// [tokens, V] logits. If no gradient is requested it computes the loss only, in blocks (linear_cross_entropy_blocks.h)
/// without keeping any logits. Under autocast x and weight are cast to the lower precision. Operators
/// plimsoll::linear_cross_entropy and plimsoll::linear_cross_entropy_loss. Throws UserError for shapes or dtypes that
/// do not agree and, when it runs, for a target outside [0, V).
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                int64_t ignore_index = -100, double softcap = 0);

// The checks and results of linear_cross_entropy, for the kernels of every device. Each function throws UserError for
// tensors that do not belong together, and returns results that are not filled yet. The functions are the Meta kernels
// too, so that a kernel allocates exactly the results that were planned.

/// Returns the loss.
at::Tensor loss_result(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets, int64_t ignore_index,
                       double softcap);
/// Returns the loss, the count of targets that are not ignored, and the gradients of x and weight. A gradient that is
/// not requested is empty.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> loss_and_gradient_results(const at::Tensor& x,
                                                                                     const at::Tensor& weight,
                                                                                     const at::Tensor& targets,
                                                                                     int64_t ignore_index, bool wants_x,
                                                                                     bool wants_weight, double softcap);

}  // namespace plimsoll::ops
