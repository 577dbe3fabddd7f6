// The loss head of a language model: projection to the vocabulary and cross entropy as one operator that never holds
// all logits (the idea is Liger-Kernel's fused linear cross entropy).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace plimsoll::ops {

/// The mean over tokens of -log softmax(x weight^T)[target], for x [..., D], weight [V, D] and int64 targets [...]; a
/// scalar, float32 (float64 for float64). Tokens whose target is `ignore_index` do not count; if all are ignored the
/// loss and the gradients are 0. With `softcap` c > 0 the logits are c tanh(x weight^T / c) instead (Gemma 2).
///
/// Works on chunks of tokens whose logits take some 64 MiB (up to 256 on a GPU), and computes the gradients in forward,
/// while a chunk's logits are there: it keeps the gradients of x and weight that are wanted instead of [tokens, V]
/// logits. Where no gradient is wanted it computes the loss only, in blocks (linear_cross_entropy_blocks.h) without
/// keeping any logits. Under autocast x and weight are cast to the lower precision. Operators
/// plimsoll::linear_cross_entropy and plimsoll::linear_cross_entropy_loss. Throws UserError for shapes or dtypes that
/// do not agree and, when it runs, for a target outside [0, V).
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                int64_t ignore_index = -100, double softcap = 0);

}  // namespace plimsoll::ops
