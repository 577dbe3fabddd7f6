// How linear_cross_entropy is cut into blocks that stay in a core's caches, and where its scratch lies: for the kernels
// and for the figures of their workspace. No libtorch.
//
// Tokens are the lanes: a chunk's logits are held turned, [vocabulary, tokens], so that a token's greatest logit and
// its sum of exponentials are taken lane by lane, and all three products read x and the weight in the order they lie
// in. Every number is summed in one order, whatever the number of threads.
#pragma once

#include <cstdint>

#include "ops/loss/linear_cross_entropy_plan.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

struct LossShape {
  int64_t tokens, vocabulary, width;
  DType dtype;
  bool wants_x, wants_weight;
};

/// Rows of the weight, and tokens, of a block: its logits (16 KiB of float32) stay in a core's first cache.
constexpr int64_t kLossBlock = 64;
/// Rows of the weight that a thread takes the greatest logits and sums of exponentials of.
constexpr int64_t kLossStretch = 512;
/// Tokens lie side by side, up to a multiple of this; so do the columns of what is packed.
constexpr int64_t kLossLanes = 16;

inline int64_t loss_lanes(int64_t count) {
  return div_up(count, kLossLanes) * kLossLanes;
}

/// Whether this machine computes the loss, whatever is wanted of it, in blocks and not by libtorch's products: the
/// shape is large enough and there are tiles for its instructions (AVX-512; of bfloat16 pairs, but not where products
/// have tiles in hardware).
bool loss_in_blocks(const LossShape& shape);

/// What lies where in the scratch, in bytes from its beginning; [] is in elements, "packed" [strips of 64 columns,
/// rows, columns of the strip]. A pair is two bfloat16 that are neighbours along a product's depth. What is not needed
/// takes no bytes.
struct LossBlocks {
  LossChunks chunks;
  int64_t columns;    ///< of x and the weight, up to a multiple of kLossLanes
  int64_t stretches;  ///< of the vocabulary
  int64_t panel;      ///< rows of the weight whose gradients of logits are held at a time; whole blocks
  int64_t logits;     ///< dtype [vocabulary, lanes]
  int64_t greatest;   ///< float32 [stretches, lanes]
  int64_t sums;       ///< float32 [stretches, lanes]
  int64_t numbers;    ///< float32 [3, lanes]: the logarithm of the sum, whether the token counts, its target's logit
  int64_t turned;     ///< x turned, strips of 64 tokens: float32 [width, …] or pairs [width / 2, …]
  int64_t rows;       ///< x packed: float32, or pairs of tokens
  int64_t weight;     ///< a panel of the weight packed: float32, or pairs of its rows
  int64_t gradients;  ///< of a panel's logits, dtype [panel, lanes]: for the weight's gradient, of float32 also for x's
  int64_t pairs;      ///< the same of bfloat16 as pairs [panel / 2, lanes]: for x's
  int64_t grad_x;     ///< float32 [rows, columns]
  int64_t low;  ///< of sums of more than two chunks in 16 bits: what rounding the gradient left [vocabulary, width]
  int64_t total;
};

LossBlocks loss_blocks(const LossShape& shape, int threads);

}  // namespace plimsoll::ops
