// Declares linear_cross_entropy on the CPU in blocks of our own matmuls. Logits are read in the cache right after they
// are computed, so the softmax costs no pass over memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace plimsoll::ops {

/// Computes the loss as linear_cross_entropy_chunks (linear_cross_entropy_chunks.h) does, for float32, and for bfloat16
/// of an even width on machines with has_pair_products(). Its scratch: the losses ([tokens] float32),
/// loss_blocks().total bytes, and copies of x and weight that are no matrices of rows.
at::Tensor linear_cross_entropy_blocks(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                       int64_t ignore_index, double softcap, const at::Tensor& grad_x,
                                       const at::Tensor& grad_weight);

}  // namespace plimsoll::ops
