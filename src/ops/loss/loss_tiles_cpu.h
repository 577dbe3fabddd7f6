// Declares the work on blocks of logits and of gradients between the matmuls of linear_cross_entropy: no tensors, no
// allocation, no threads. It is compiled for several instruction sets; cpu_capability() says which one runs.
//
// Blocks are transposed: a row is a row of the weight, and the tokens of a chunk are the lanes, a multiple of 16. Lanes
// beyond the last token hold values without meaning, and no gradient.
#pragma once

#include <cstdint>

#include "ops/attention_rows_cpu.h"
#include "ops/block_products_cpu.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// A block of logits of some rows of the weight, as a matmul returns them.
struct LogitTile {
  float* scores;  ///< [rows, lanes]; overwritten
  int64_t rows, lanes;
  double cap;      ///< > 0: a logit is cap tanh(score / cap)
  float* maximum;  ///< [lanes]: maximum over the rows so far; -infinity before the first
  float* sums;     ///< [lanes]: sum of exponentials of the distance from `greatest`
  void* logits;    ///< dtype [rows, stride]; null: logits are not stored
  DType dtype;
  int64_t stride;
};

/// Runs one step of the softmax over rows of the weight (M. Milakov and N. Gimelshein, "Online normalizer calculation
/// for softmax"), on logits rounded to `dtype`.
void logit_tile(const LogitTile& tile);

/// Computes numbers[lane] = the logarithm of the sum of exponentials of a lane's logits, from `count` parts [count,
/// lanes].
void logarithm_of_sums(const float* maximum, const float* sums, int64_t count, int64_t lanes, float* numbers);

/// The arguments of the gradients of the loss with regard to logits: their probabilities.
struct LogitGradients {
  const void* logits;  ///< dtype [rows, lanes]
  DType dtype;
  int64_t rows, lanes;
  double cap;
  const float* log_sum;  ///< [lanes]
  const float* counts;   ///< [lanes]: 1, or 0 if the token has no gradient
  void* gradients;       ///< dtype [rows, stride]; null with `pairs`
  Pair* pairs;           ///< [(rows + 1) / 2, stride] of rows 2 i and 2 i + 1 of bfloat16; or null
  int64_t stride;        ///< elements from a row to the next of `gradients` and of `pairs`; at least `lanes`
};
void logit_gradients(const LogitGradients& args);
/// Subtracts the 1 of a token's target: `row` of the block, `lane` of the token.
void target_gradient(const LogitGradients& args, int64_t row, int64_t lane);

/// A sum stored as two 16-bit values: itself and its rounding error. `low` may be null and then counts as 0.
struct SplitRows {
  MutableHeadRows high;
  void* low;  ///< rounding errors of `high`, in rows of the same stride; or null
};
/// Loads the sums as float32 [count, columns], zeros beyond the width.
void load_split(const SplitRows& from, int64_t columns, float* to);
void store_split(const float* from, int64_t columns, const SplitRows& to);

}  // namespace plimsoll::ops
