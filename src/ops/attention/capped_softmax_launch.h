// Softmax of attention's scores, capped or not, on a CUDA device: launchers.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/kernel_arguments.h"

namespace plimsoll::cuda {

/// Scores of several heads, and of the queries that share a key head: row r is of query r % queries, and of matrix
/// r / queries, whose logsumexp lie `logsumexp_stride` apart. `softmax.logsumexp` is that of matrix 0's first query.
struct ScoreRows {
  ops::CappedSoftmax softmax;  ///< cap 0: none
  int64_t rows, queries, logsumexp_stride;
};

/// The probabilities of each row to `probabilities` (rows of float32, float64 or a 16-bit type; the scores themselves
/// may be written over), and its logsumexp.
void launch_capped_softmax(const ScoreRows& args, const ops::Rows& probabilities, cudaStream_t stream);

/// The probabilities again, from scores and logsumexp, and from `grad`, their gradient, that of the scores: p (grad -
/// mean) (1 - (c / cap)^2) scale, with the mean of a row's gradients under its probabilities. Both may be written over
/// what they are made of.
void launch_capped_softmax_backward(const ScoreRows& args, const ops::ConstRows& grad, const ops::Rows& probabilities,
                                    const ops::Rows& grad_scores, cudaStream_t stream);

}  // namespace plimsoll::cuda
