// Declares the loss head of a language model: projection to the vocabulary and cross entropy as one operator. It never
// holds all logits (the idea is Liger-Kernel's fused linear cross entropy).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

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

}  // namespace plimsoll::ops
