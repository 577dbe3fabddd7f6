// Declares linear_cross_entropy on the CPU in blocks of our own matmuls, and how it is cut into blocks that stay in
// a core's caches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ops/loss/linear_cross_entropy_chunks.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Computes the loss as linear_cross_entropy_chunks (linear_cross_entropy_chunks.h) does, for float32, and for bfloat16
/// of an even width on machines with has_pair_products(). Its scratch: the losses ([tokens] float32),
/// loss_blocks().total bytes, and copies of x and weight that are no matrices of rows.
at::Tensor linear_cross_entropy_blocks(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                       int64_t ignore_index, double softcap, const at::Tensor& grad_x,
                                       const at::Tensor& grad_weight);

/// The sizes of a loss head, and the gradients that are requested.
struct LossShape {
  int64_t tokens, vocabulary, width;
  DType dtype;
  bool wants_x, wants_weight;
};

/// Rows of the weight, and tokens, of a block. Its logits (16 KiB of float32) stay in a core's first-level cache.
constexpr int64_t kLossBlock = 64;
/// Rows of the weight for which one thread computes the largest logits and the sums of exponentials.
constexpr int64_t kLossStretch = 512;
/// The multiple to which tokens are padded; they are contiguous. The columns of packed operands are padded alike.
constexpr int64_t kLossLanes = 16;

inline int64_t loss_lanes(int64_t count) {
  return div_up(count, kLossLanes) * kLossLanes;
}

/// The layout of the scratch, which the kernels and the estimates of their workspace share: the byte offsets of its
/// parts. [] is in elements; "packed" is [strips of 64 columns, rows, columns of the strip]. A pair is two bfloat16
/// that are neighbors along a matmul's depth. Parts that are not needed take no bytes.
///
/// Tokens are the lanes: a chunk's logits are held transposed, [vocabulary, tokens]. A token's largest logit and its
/// sum of exponentials are then taken lane by lane. All three matmuls read x and the weight in memory order. Every sum
/// has one order, for any number of threads.
struct LossBlocks {
  LossChunks chunks;
  int64_t columns;     ///< columns of x and the weight, up to a multiple of kLossLanes
  int64_t stretches;   ///< number of stretches of the vocabulary
  int64_t panel;       ///< rows of the weight whose gradients of logits are held at a time; whole blocks
  int64_t stride;      ///< elements from a row of a panel's gradients to the next
  int64_t logits;      ///< dtype [vocabulary, lanes]
  int64_t maximum;     ///< float32 [stretches, lanes]
  int64_t sums;        ///< float32 [stretches, lanes]
  int64_t numbers;     ///< float32 [3, lanes]: the logarithm of the sum; 1 if the token counts; its target's logit
  int64_t transposed;  ///< x transposed, strips of 64 tokens: float32 [width, …] or pairs [width / 2, …]
  int64_t rows;        ///< x packed: float32, or pairs of tokens
  int64_t gradients;   ///< logit gradients of a panel, dtype [panel, stride], for the weight (float32: also for x)
  int64_t pairs;       ///< the bfloat16 gradients as pairs [panel / 2, stride]: for x's gradient
  int64_t grad_x;      ///< float32 [rows, columns]
  int64_t low;  ///< rounding error of the gradient [vocabulary, width], for sums of more than two chunks in 16 bits
  int64_t total;
};

LossBlocks loss_blocks(const LossShape& shape, int threads);

}  // namespace plimsoll::ops
