// How attention's CPU kernels share out their work, and the scratch of one thread: for the kernels and for the figures
// of their workspace. No libtorch.
//
// Blocks of 64 queries meet blocks of 64 keys on one grid, wherever a task begins: what is summed, and in which order,
// does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/attention/attention_plan.h"
#include "ops/rows.h"

namespace plimsoll::ops {

/// Tokens of a block: its scores (16 KiB of float32) and what they are made from stay in a core's first two caches.
constexpr int64_t kAttentionBlock = 64;
/// Queries of a block lie side by side, up to a multiple of this; so do the columns of a head's rows.
constexpr int64_t kAttentionLanes = 16;

inline int64_t attention_lanes(int64_t count) {
  return div_up(count, kAttentionLanes) * kAttentionLanes;
}
inline int64_t attention_blocks(int64_t tokens) {
  return div_up(tokens, kAttentionBlock);
}

/// The forward pass's tasks: a block of queries of a head each.
inline int64_t forward_tasks(const AttentionShape& shape) {
  return shape.batch * shape.query_heads * attention_blocks(shape.queries);
}

/// Task `index` of `count` in an order in which any stretch is as much work as another where the work grows with the
/// index, as it does under a causal mask: 0, count - 1, 1, count - 2, …
inline int64_t balanced(int64_t index, int64_t count) {
  return index % 2 == 0 ? index / 2 : count - 1 - index / 2;
}

/// The backward pass's work: `together`, a task is one key head of a sequence and gives all three gradients. Where
/// that leaves threads idle, keys' and values' gradients come first, a chunk of a key head's keys a task, and queries'
/// after them, a block of a head a task: the scores are worked out twice, 7 products in place of 5.
struct BackwardCut {
  bool together;
  int64_t key_chunk;  ///< keys of a task, a multiple of the block unless it is all
  int64_t chunks;     ///< of a key head
  int64_t key_tasks;
  int64_t query_tasks;  ///< 0 where they are together

  int64_t most_tasks() const { return std::max(key_tasks, query_tasks); }
};
BackwardCut backward_cut(const AttentionShape& shape, int threads);

/// Where the tiles of a thread begin, in bytes, each at a whole cache line; `total` is what a thread takes. The same
/// whether products are of float32 or of bfloat16 pairs, whose tiles are no larger: which a machine has does not show
/// in the plan. D is the width, D' the width up to a multiple of 16. "Wide": float64 for float64, else float32.
struct ForwardTiles {
  int64_t queries;  ///< wide [D, queries], turned
  int64_t keys;     ///< wide [keys, D'], for 16-bit elements
  int64_t values;   ///< likewise
  int64_t scores;   ///< wide [keys, queries]
  int64_t result;   ///< wide [D, queries], turned
  int64_t numbers;  ///< wide [2, queries]: the greatest score, the sum of exponentials
  int64_t total;
};
ForwardTiles forward_tiles(const AttentionShape& shape, int64_t element_bytes);

struct BackwardTiles {
  int64_t queries, gradients;            ///< wide [D, queries], turned: q and the result's gradient
  int64_t query_rows, gradient_rows;     ///< wide [queries, D'] of the same
  int64_t keys, values;                  ///< wide [keys, D'], for 16-bit elements
  int64_t scores, score_gradients;       ///< wide [keys, queries]
  int64_t pairs;                         ///< pairs [keys / 2, queries] of score gradients, for 16-bit elements
  int64_t query_gradient;                ///< wide [D, queries], turned
  int64_t numbers;                       ///< wide [2, queries]: log of the sum, what a row's gradients share
  int64_t key_gradient, value_gradient;  ///< wide [keys of a task, D']
  int64_t total;
};
BackwardTiles backward_tiles(const AttentionShape& shape, const BackwardCut& cut, int64_t element_bytes);

/// Bytes of scratch that the kernels take on so many threads.
int64_t attention_forward_scratch(const AttentionShape& shape, int64_t element_bytes, int threads);
int64_t attention_backward_scratch(const AttentionShape& shape, int64_t element_bytes, int threads);

}  // namespace plimsoll::ops
