// Declares the CUDA launchers of the softmax of attention's scores: capped or not, with or without a mask that is a
// tensor, and dropout.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/attention/attention_dropout.h"
#include "ops/kernel_arguments.h"

namespace plimsoll::cuda {

/// A mask of [matrices, queries, width of the scores]: boolean, true where a query sees a key, or floating-point, added
/// to the scores. `data` is the element of row 0 and column 0; strides are in elements, 0 for dimensions that are
/// broadcast.
struct ScoreMask {
  const void* data = nullptr;  ///< nullptr: none
  DType dtype = DType::boolean;
  int64_t matrix_stride = 0, query_stride = 0, key_stride = 0;
};

/// Dropout of the probabilities (attention_dropout.h). `seed` is in the device's memory, so that a captured graph reads
/// the seed of each run.
struct ScoreDropout {
  ops::DropoutRule rule = {};
  const int64_t* seed = nullptr;
  int64_t first_head = 0, first_query = 0, first_key = 0;  ///< the positions in the call of matrix 0, row 0, column 0
};

/// The scores of several heads, and of the queries that share a key head. Row r belongs to query r % queries and to
/// matrix r / queries. From a matrix to the next, logsumexp has a stride of `logsumexp_stride` elements.
/// `softmax.logsumexp` points to the first query of matrix 0. With a mask there are two numbers a query: the largest
/// score and the logarithm of the sum of exponentials of distances from it. A score that a mask makes as low as numbers
/// go would lose the second to rounding. For a query that sees no key the second is infinity, and its probabilities
/// are 0.
struct ScoreRows {
  ops::CappedSoftmax softmax;  ///< cap 0: none
  int64_t rows, queries, logsumexp_stride;
  ScoreMask mask = {};
  ScoreDropout dropout = {};
};

/// Writes the probabilities of each row to `probabilities` (rows of float32, float64 or a 16-bit type; it may overwrite
/// the scores), and each row's logsumexp. Probabilities that dropout drops are 0, the others are multiplied by the
/// rule's factor; logsumexp is without dropout.
void launch_capped_softmax(const ScoreRows& args, const ops::Rows& probabilities, cudaStream_t stream);

/// Recomputes the probabilities from scores and logsumexp. Turns `grad`, their gradient, into the gradient of the
/// scores: p (grad - mean) (1 - (c / cap)^2) scale. `mean` is the mean of a row's gradients under its probabilities.
/// With dropout `grad` is the gradient of the probabilities behind it, which are written. Both results may overwrite
/// their sources.
void launch_capped_softmax_backward(const ScoreRows& args, const ops::ConstRows& grad, const ops::Rows& probabilities,
                                    const ops::Rows& grad_scores, cudaStream_t stream);

}  // namespace plimsoll::cuda
