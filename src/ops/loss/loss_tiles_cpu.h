// What is done to blocks of logits and of gradients between the products of linear_cross_entropy: no tensors, no
// allocation, no threads. Compiled for several instruction sets; cpu_capability() says which runs.
//
// Blocks are turned: a row is a row of the weight, the tokens of a chunk are the lanes, a multiple of 16 of them. Lanes
// beyond the last token hold numbers of no meaning, and no gradient.
#pragma once

#include <cstdint>

#include "ops/arithmetic/attention_rows_cpu.h"
#include "ops/arithmetic/block_products_cpu.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Logits as they come from a product, of some rows of the weight.
struct LogitTile {
  float* scores;  ///< [rows, lanes]; overwritten
  int64_t rows, lanes;
  double cap;       ///< > 0: a logit is cap tanh(score / cap)
  float* greatest;  ///< [lanes] of the rows so far, -infinity before the first,
  float* sums;      ///< and the sum of exponentials of their distance from it
  void* logits;     ///< dtype [rows, stride], or nothing to store
  DType dtype;
  int64_t stride;
};

/// One step of the softmax over rows of the weight (M. Milakov and N. Gimelshein, "Online normalizer calculation for
/// softmax"), of logits as they are when rounded to `dtype`.
void logit_tile(const LogitTile& tile);

/// numbers[lane] = the logarithm of the sum of exponentials of a lane's logits, of `count` parts [count, lanes].
void logarithm_of_sums(const float* greatest, const float* sums, int64_t count, int64_t lanes, float* numbers);

/// The gradients of the loss with regard to logits: their probabilities.
struct LogitGradients {
  const void* logits;  ///< dtype [rows, lanes]
  DType dtype;
  int64_t rows, lanes;
  double cap;
  const float* log_sum;  ///< [lanes]
  const float* counts;   ///< [lanes]: 0 where there is no gradient
  void* gradients;       ///< dtype [rows, lanes], or nothing where there are pairs
  Pair* pairs;           ///< [(rows + 1) / 2, lanes] of rows 2 i and 2 i + 1 of bfloat16, or nothing
};
void logit_gradients(const LogitGradients& args);
/// Takes the 1 of a token's target off: `row` of the block, `lane` of the token.
void target_gradient(const LogitGradients& args, int64_t row, int64_t lane);

/// A sum that is kept as two numbers of 16 bits, itself and what rounding it left. `low` may be nothing, then it is 0.
struct SplitRows {
  MutableHeadRows high;
  void* low;  ///< as `high`, in rows of the same stride
};
/// float32 [count, columns], zeros beyond the width.
void load_split(const SplitRows& from, int64_t columns, float* to);
void store_split(const float* from, int64_t columns, const SplitRows& to);

}  // namespace plimsoll::ops
