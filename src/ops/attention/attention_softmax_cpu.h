// The softmax of attention and its backward on blocks in a core's caches: no tensors, no allocation, no threads.
// Compiled for several instruction sets; cpu_capability() says which runs.
//
// Queries are the lanes: a block of scores is k q^T, [keys, queries], so that a query's greatest score and its sum are
// taken lane by lane, and so are its result and its gradient, which are held turned, [width, queries]. "Wide": float64
// for float64 elements, float32 for every other. Lanes beyond the last query hold numbers that are never stored.
#pragma once

#include <cstdint>

#include "ops/arithmetic/block_products_cpu.h"

namespace plimsoll::ops {

/// A block of scores and which of them count.
struct ScoreBlock {
  void* scores;  ///< wide [keys, lanes], products of keys and queries; overwritten
  bool is_double;
  int64_t keys, lanes;
  double scale, cap;   ///< a score is scale x, or with cap > 0 cap tanh(scale x / cap)
  bool causal;         ///< query i sees the keys j <= i,
  int64_t window;      ///< with a window > 0 those with j > i - window
  int64_t lead;        ///< the first key of the block less its first query
  bool pairs = false;  ///< write what the products of pairs want
};

/// One step of the softmax over blocks of keys (M. Milakov and N. Gimelshein, "Online normalizer calculation for
/// softmax"): scores become exponentials, of their distance from the greatest so far, and what was summed before is
/// brought to that: `numbers` (wide [2, lanes]: the greatest score and the sum of exponentials) and
/// `result` (wide [width, lanes]). With `pairs` the exponentials are bfloat16, [(keys + 1) / 2, lanes] of keys 2 i and
/// 2 i + 1, in the place of the scores.
void softmax_block(const ScoreBlock& block, void* numbers, void* result, int64_t width);
/// Before the first block.
void start_softmax(bool is_double, int64_t lanes, void* numbers);
/// After the last: `numbers` become the logarithm of the sum of exponentials, and what the result is to be multiplied
/// by.
void finish_softmax(bool is_double, int64_t lanes, void* numbers);

/// Scores become probabilities p, and `gradients` (wide [keys, lanes], of the probabilities) those of the products,
/// p (gradient - shared) scale, with a cap times the derivative of tanh. `numbers` (wide [2, lanes]): the logarithm of
/// the sum of exponentials, and what a query's gradients share, its result times the result's gradient. With `pairs`
/// both are bfloat16 in the place of what they were, [keys, 2 lanes] of which the first `lanes` count, and
/// `gradient_pairs` holds the gradients again, [(keys + 1) / 2, lanes] of keys 2 i and 2 i + 1.
void softmax_gradient_block(const ScoreBlock& block, const void* numbers, void* gradients, Pair* gradient_pairs);

}  // namespace plimsoll::ops
