// Declares the softmax of attention and its backward on blocks in a core's caches: no tensors, no allocation, no
// threads. They are compiled for several instruction sets; cpu_capability() says which one runs.
//
// Queries are the lanes: a block of scores is k q^T, [keys, queries]. A query's largest score and its sum are then
// taken lane by lane. So are its result and its gradient, which are held transposed, [width, queries]. "Wide": float64
// for float64 elements, float32 for every other type. Lanes beyond the last query hold values that are never stored.
#pragma once

#include <cstdint>

#include "ops/attention/attention_dropout.h"
#include "ops/block_products_cpu.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Dropout of the probabilities of one head.
struct BlockDropout {
  uint64_t seed = 0;  ///< head_seed()
  DropoutRule rule = {};
  int64_t first_query = 0, first_key = 0;
};

/// A mask's rows for a block of keys and queries: boolean, true where a query sees a key, or floating-point, added to
/// the score. `data` is the value of the first query and the first key; strides in elements.
struct MaskBlock {
  const void* data;
  DType dtype;
  int64_t query_stride, key_stride;
  int64_t queries, keys;
};
enum class Seen { none, some, all };
/// Writes what is added to scores as wide [keys, lanes]: 0 and minus infinity for a boolean mask. Lanes beyond the last
/// query get 0. Returns `none` if every value is minus infinity, and `all` if every value is 0.
Seen load_mask_block(const MaskBlock& mask, bool is_double, int64_t lanes, void* bias);

/// A block of scores and the mask of those that count.
struct ScoreBlock {
  void* scores;  ///< wide [keys, lanes], dot products of keys and queries; overwritten
  bool is_double;
  int64_t keys, lanes;
  double scale, cap;           ///< a score is scale x, or with cap > 0 cap tanh(scale x / cap)
  bool causal;                 ///< query i sees only the keys j <= i
  int64_t window;              ///< tokens; if above 0, query i sees only the keys j > i - window
  int64_t lead;                ///< the first key of the block minus its first query
  bool pairs = false;          ///< write bfloat16 pairs, for matmuls of pairs
  const void* bias = nullptr;  ///< wide [keys, lanes], added to the scores; nullptr: none
  bool split = false;          ///< backward: the third row of `numbers` is subtracted from scores, too
  BlockDropout dropout = {};
};

/// Runs one step of the softmax over blocks of keys (M. Milakov and N. Gimelshein, "Online normalizer calculation for
/// softmax"). Scores become exponentials of their distance from the largest score so far, and earlier sums are rescaled
/// to that score. `numbers` is wide [2, lanes]: the largest score and the sum of exponentials. `result` is wide [width,
/// lanes]. With `pairs` the exponentials are bfloat16, [(keys + 1) / 2, lanes] of keys 2 i and 2 i + 1, and overwrite
/// the scores.
void softmax_block(const ScoreBlock& block, void* numbers, void* result, int64_t width);
/// Initializes `numbers` before the first block.
void start_softmax(bool is_double, int64_t lanes, void* numbers);
/// Finishes after the last block: `numbers` become the logarithm of the sum of exponentials and the factor of the
/// result, which contains `keep_factor`. With `split` the logarithm is in two parts, the largest score in row 0 and the
/// rest in row 2: a score that a mask makes as low as numbers go would lose the rest to rounding. A query that sees no
/// key gets the factor 0, and a rest of infinity, which makes its probabilities 0.
void finish_softmax(bool is_double, int64_t lanes, void* numbers, double keep_factor = 1, bool split = false);

/// Turns scores into probabilities p, and `gradients` from those of the probabilities into those of the products.
/// `gradients` is wide [keys, lanes]. The gradient of a product is p (gradient - shared) scale, with a cap times the
/// derivative of tanh. `numbers` (wide [2, lanes]) holds the logarithm of the sum of exponentials, and the term that a
/// query's gradients share: its result times the result's gradient. With `pairs` both are overwritten as bfloat16
/// [keys, 2 lanes], of which the first `lanes` count. `gradient_pairs` then also holds the gradients, [(keys + 1) / 2,
/// lanes] of keys 2 i and 2 i + 1.
void softmax_gradient_block(const ScoreBlock& block, const void* numbers, void* gradients, Pair* gradient_pairs);

}  // namespace plimsoll::ops
