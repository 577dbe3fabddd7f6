// Declares the softmax of attention and its backward on blocks in a core's caches: no tensors, no allocation, no
// threads. They are compiled for several instruction sets; cpu_capability() says which one runs.
//
// Queries are the lanes: a block of scores is k q^T, [keys, queries]. A query's largest score and its sum are then
// taken lane by lane. So are its result and its gradient, which are held transposed, [width, queries]. "Wide": float64
// for float64 elements, float32 for every other type. Lanes beyond the last query hold values that are never stored.
#pragma once

#include <cstdint>

#include "ops/arithmetic/block_products_cpu.h"

namespace plimsoll::ops {

/// A block of scores and the mask of those that count.
struct ScoreBlock {
  void* scores;  ///< wide [keys, lanes], dot products of keys and queries; overwritten
  bool is_double;
  int64_t keys, lanes;
  double scale, cap;   ///< a score is scale x, or with cap > 0 cap tanh(scale x / cap)
  bool causal;         ///< query i sees only the keys j <= i
  int64_t window;      ///< tokens; if above 0, query i sees only the keys j > i - window
  int64_t lead;        ///< the first key of the block minus its first query
  bool pairs = false;  ///< write bfloat16 pairs, for matmuls of pairs
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
/// result.
void finish_softmax(bool is_double, int64_t lanes, void* numbers);

/// Turns scores into probabilities p, and `gradients` from those of the probabilities into those of the products.
/// `gradients` is wide [keys, lanes]. The gradient of a product is p (gradient - shared) scale, with a cap times the
/// derivative of tanh. `numbers` (wide [2, lanes]) holds the logarithm of the sum of exponentials, and the term that a
/// query's gradients share: its result times the result's gradient. With `pairs` both are overwritten as bfloat16
/// [keys, 2 lanes], of which the first `lanes` count. `gradient_pairs` then also holds the gradients, [(keys + 1) / 2,
/// lanes] of keys 2 i and 2 i + 1.
void softmax_gradient_block(const ScoreBlock& block, const void* numbers, void* gradients, Pair* gradient_pairs);

}  // namespace plimsoll::ops
