// Implements the softmax of rows of scores c = cap tanh(scale x / cap), or c = scale x: one block a row. Kernels of
// scores with a mask or dropout read the mask in place, and compute the bits of the dropout.
#pragma once

#include <limits>

#include "ops/attention/capped_softmax_launch.h"
#include "ops/device_support.cuh"
#include "ops/loss/cross_entropy_kernels.cuh"

namespace plimsoll::cuda {

/// The parameters that all rows of scores share.
template <typename S>
struct ScoreShape {
  int32_t width, queries, first_seen, seen;
  bool causal;
  S scale, cap;  ///< cap 0: none

  /// Return the range of columns that query `query` sees.
  __device__ int32_t begin_of(int32_t query) const { return causal && first_seen + query > 0 ? first_seen + query : 0; }
  __device__ int32_t end_of(int32_t query) const { return causal && seen + query < width ? seen + query : width; }
  /// Returns a score as a fraction of the cap.
  __device__ S share(S x) const { return cap > 0 ? hyperbolic_tangent(x * (scale / cap)) : S(0); }
  __device__ S score(S x, S share) const { return cap > 0 ? share * cap : x * scale; }
};

template <typename S, typename P>
__global__ void __launch_bounds__(1024)
    capped_softmax(const S* scores, int64_t stride, P* probabilities, int64_t probability_stride, S* logsumexp,
                   int64_t logsumexp_stride, ScoreShape<S> shape) {
  const auto row = static_cast<int32_t>(blockIdx.x), query = row % shape.queries;
  const int32_t begin = shape.begin_of(query), end = shape.end_of(query);
  const S* const x = scores + row * stride;
  P* const p = probabilities + row * probability_stride;
  RunningSoftmax<S> softmax;
  for (int32_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const S value[1] = {shape.score(x[i], shape.share(x[i]))};
    softmax.add(value);
  }
  const S log_sum = softmax.log_sum_of_block();
  for (int32_t i = threadIdx.x; i < shape.width; i += blockDim.x) {
    const S value = x[i];
    p[i] = narrow<P>(i >= begin && i < end ? exponential(shape.score(value, shape.share(value)) - log_sum) : S(0));
  }
  if (threadIdx.x == 0) logsumexp[row / shape.queries * logsumexp_stride + query] = log_sum;
}

template <typename S, typename P>
__global__ void __launch_bounds__(1024)
    capped_softmax_backward(const S* scores, int64_t stride, const S* grad, int64_t grad_stride, P* probabilities,
                            int64_t probability_stride, P* grad_scores, int64_t grad_score_stride, const S* logsumexp,
                            int64_t logsumexp_stride, ScoreShape<S> shape) {
  const auto row = static_cast<int32_t>(blockIdx.x), query = row % shape.queries;
  const int32_t begin = shape.begin_of(query), end = shape.end_of(query);
  const S* const x = scores + row * stride;
  const S* const g = grad + row * grad_stride;
  P* const p = probabilities + row * probability_stride;
  P* const to = grad_scores + row * grad_score_stride;
  const S log_sum = logsumexp[row / shape.queries * logsumexp_stride + query];
  S mean = 0;
  for (int32_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    mean += g[i] * exponential(shape.score(x[i], shape.share(x[i])) - log_sum);
  mean = reduce_block<Sum>(mean);
  for (int32_t i = threadIdx.x; i < shape.width; i += blockDim.x) {
    const bool seen = i >= begin && i < end;
    const S share = shape.share(x[i]), probability = exponential(shape.score(x[i], share) - log_sum);
    const S through = (g[i] - mean) * probability * (1 - share * share) * shape.scale;
    p[i] = narrow<P>(seen ? probability : S(0));
    to[i] = narrow<P>(seen ? through : S(0));
  }
}

/// One row of a mask.
template <typename S>
struct MaskOfRow {
  const ScoreMask& mask;
  int64_t first;  ///< index of the row's first element in the mask
  int32_t stride;

  __device__ MaskOfRow(const ScoreMask& all, int32_t matrix, int32_t query)
      : mask(all),
        first(matrix * all.matrix_stride + query * all.query_stride),
        stride(static_cast<int32_t>(all.key_stride)) {}
  /// Returns what is added to the score of a column.
  __device__ S at(int32_t column) const {
    if (mask.data == nullptr) return S(0);
    const int64_t i = first + int64_t{column} * stride;
    if (mask.dtype == DType::boolean) return static_cast<const uint8_t*>(mask.data)[i] != 0 ? S(0) : lowest<S>();
    return load_as<S>(mask.data, mask.dtype, i);
  }
};

/// The dropout of one row.
template <typename S>
struct DropoutOfRow {
  uint32_t lower = 0, upper = 0, first_key, threshold;
  S factor;

  __device__ DropoutOfRow(const ScoreDropout& all, int32_t matrix, int32_t query)
      : first_key(static_cast<uint32_t>(all.first_key)),
        threshold(all.rule.threshold),
        factor(static_cast<S>(all.rule.factor)) {
    if (threshold == 0) return;
    const uint64_t seed = ops::head_seed(static_cast<uint64_t>(*all.seed), all.first_head + matrix);
    const uint64_t bits = ops::query_bits(seed, all.first_query + query);
    lower = static_cast<uint32_t>(bits);
    upper = static_cast<uint32_t>(bits >> 32);
  }
  /// Returns the value of a column, 0 if it is dropped.
  __device__ S of(S value, int32_t column) const {
    if (threshold == 0) return value;
    const uint32_t bits = ops::element_bits(lower, upper, first_key + static_cast<uint32_t>(column));
    return bits >= threshold ? value * factor : S(0);
  }
};

/// A row of scores with a mask or dropout, and its logsumexp: `log_sum` and `rest`, or `log_sum` alone without a mask.
template <typename S>
struct ChangedRow {
  const ScoreShape<S>& shape;
  const S* scores;
  MaskOfRow<S> mask;
  DropoutOfRow<S> dropout;
  S log_sum = 0, rest = 0;

  __device__ S score(int32_t column, S share) const { return shape.score(scores[column], share) + mask.at(column); }
  /// Returns the probability without dropout. The distance from the largest score is taken first: both may be large.
  __device__ S probability(int32_t column, S share) const {
    return exponential((score(column, share) - log_sum) - rest);
  }
};

template <typename S, typename P>
__global__ void __launch_bounds__(1024)
    changed_softmax(const S* scores, int64_t stride, P* probabilities, int64_t probability_stride, S* logsumexp,
                    int64_t logsumexp_stride, ScoreShape<S> shape, ScoreMask mask, ScoreDropout dropout) {
  const auto row = static_cast<int32_t>(blockIdx.x), query = row % shape.queries, matrix = row / shape.queries;
  const int32_t begin = shape.begin_of(query), end = shape.end_of(query);
  ChangedRow<S> changed{shape, scores + row * stride, {mask, matrix, query}, {dropout, matrix, query}};
  const S* const x = changed.scores;
  P* const p = probabilities + row * probability_stride;
  RunningSoftmax<S> softmax;
  for (int32_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const S value[1] = {changed.score(i, shape.share(x[i]))};
    softmax.add(value);
  }
  const RunningSoftmax<S> all = softmax.of_block();
  if (mask.data == nullptr) {
    changed.log_sum = all.maximum + logarithm(all.total);
  } else {
    // A distance from minus infinity would be NaN.
    constexpr S kNone = std::numeric_limits<S>::lowest();
    changed.log_sum = all.maximum == lowest<S>() ? kNone : all.maximum;
    changed.rest = all.total == 0 ? -lowest<S>() : logarithm(all.total);
  }
  for (int32_t i = threadIdx.x; i < shape.width; i += blockDim.x) {
    const S probability = i >= begin && i < end ? changed.probability(i, shape.share(x[i])) : S(0);
    p[i] = narrow<P>(changed.dropout.of(probability, i));
  }
  if (threadIdx.x != 0) return;
  S* const kept = logsumexp + matrix * logsumexp_stride + query * (mask.data == nullptr ? 1 : 2);
  kept[0] = changed.log_sum;
  if (mask.data != nullptr) kept[1] = changed.rest;
}

template <typename S, typename P>
__global__ void __launch_bounds__(1024)
    changed_softmax_backward(const S* scores, int64_t stride, const S* grad, int64_t grad_stride, P* probabilities,
                             int64_t probability_stride, P* grad_scores, int64_t grad_score_stride, const S* logsumexp,
                             int64_t logsumexp_stride, ScoreShape<S> shape, ScoreMask mask, ScoreDropout dropout) {
  const auto row = static_cast<int32_t>(blockIdx.x), query = row % shape.queries, matrix = row / shape.queries;
  const int32_t begin = shape.begin_of(query), end = shape.end_of(query);
  ChangedRow<S> changed{shape, scores + row * stride, {mask, matrix, query}, {dropout, matrix, query}};
  const S* const x = changed.scores;
  const S* const g = grad + row * grad_stride;
  P* const p = probabilities + row * probability_stride;
  P* const to = grad_scores + row * grad_score_stride;
  const S* const kept = logsumexp + matrix * logsumexp_stride + query * (mask.data == nullptr ? 1 : 2);
  changed.log_sum = kept[0];
  if (mask.data != nullptr) changed.rest = kept[1];
  S mean = 0;
  for (int32_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    mean += changed.dropout.of(g[i], i) * changed.probability(i, shape.share(x[i]));
  mean = reduce_block<Sum>(mean);
  for (int32_t i = threadIdx.x; i < shape.width; i += blockDim.x) {
    const bool seen = i >= begin && i < end;
    const S share = shape.share(x[i]), probability = seen ? changed.probability(i, share) : S(0);
    const S through = (changed.dropout.of(g[i], i) - mean) * probability * (1 - share * share) * shape.scale;
    p[i] = narrow<P>(changed.dropout.of(probability, i));
    to[i] = narrow<P>(seen ? through : S(0));
  }
}

}  // namespace plimsoll::cuda
