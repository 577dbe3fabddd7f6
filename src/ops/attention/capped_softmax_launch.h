// Declares the CUDA launchers of the softmax of attention's scores, capped or not.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/kernel_arguments.h"

namespace plimsoll::cuda {

/// The scores of several heads, and of the queries that share a key head. Row r belongs to query r % queries and to
/// matrix r / queries. From a matrix to the next, logsumexp has a stride of `logsumexp_stride` elements.
/// `softmax.logsumexp` points to the first query of matrix 0.
struct ScoreRows {
  ops::CappedSoftmax softmax;  ///< cap 0: none
  int64_t rows, queries, logsumexp_stride;
};

/// Writes the probabilities of each row to `probabilities` (rows of float32, float64 or a 16-bit type; it may overwrite
/// the scores), and each row's logsumexp.
void launch_capped_softmax(const ScoreRows& args, const ops::Rows& probabilities, cudaStream_t stream);

/// Recomputes the probabilities from scores and logsumexp. Turns `grad`, their gradient, into the gradient of the
/// scores: p (grad - mean) (1 - (c / cap)^2) scale. `mean` is the mean of a row's gradients under its probabilities.
/// Both results may overwrite their sources.
void launch_capped_softmax_backward(const ScoreRows& args, const ops::ConstRows& grad, const ops::Rows& probabilities,
                                    const ops::Rows& grad_scores, cudaStream_t stream);

}  // namespace plimsoll::cuda
