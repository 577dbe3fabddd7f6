// Implements the softmax of rows of scores c = cap tanh(scale x / cap), or c = scale x: one block a row.
#pragma once

#include "ops/device_support.cuh"
#include "ops/loss/cross_entropy_kernels.cuh"

namespace plimsoll::cuda {

/// The parameters that all rows of scores share.
template <typename S>
struct ScoreShape {
  int64_t width, queries, first_seen, seen;
  bool causal;
  S scale, cap;  ///< cap 0: none

  /// Return the range of columns that query `query` sees.
  __device__ int64_t begin_of(int64_t query) const { return causal && first_seen + query > 0 ? first_seen + query : 0; }
  __device__ int64_t end_of(int64_t query) const { return causal && seen + query < width ? seen + query : width; }
  /// Returns a score as a fraction of the cap.
  __device__ S share(S x) const { return cap > 0 ? hyperbolic_tangent(x * (scale / cap)) : S(0); }
  __device__ S score(S x, S share) const { return cap > 0 ? share * cap : x * scale; }
};

template <typename S, typename P>
__global__ void __launch_bounds__(1024)
    capped_softmax(const S* scores, int64_t stride, P* probabilities, int64_t probability_stride, S* logsumexp,
                   int64_t logsumexp_stride, ScoreShape<S> shape) {
  const int64_t row = blockIdx.x, query = row % shape.queries;
  const int64_t begin = shape.begin_of(query), end = shape.end_of(query);
  const S* const x = scores + row * stride;
  P* const p = probabilities + row * probability_stride;
  RunningSoftmax<S> softmax;
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const S value[1] = {shape.score(x[i], shape.share(x[i]))};
    softmax.add(value);
  }
  const S log_sum = softmax.log_sum_of_block();
  for (int64_t i = threadIdx.x; i < shape.width; i += blockDim.x) {
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
  const int64_t row = blockIdx.x, query = row % shape.queries;
  const int64_t begin = shape.begin_of(query), end = shape.end_of(query);
  const S* const x = scores + row * stride;
  const S* const g = grad + row * grad_stride;
  P* const p = probabilities + row * probability_stride;
  P* const to = grad_scores + row * grad_score_stride;
  const S log_sum = logsumexp[row / shape.queries * logsumexp_stride + query];
  S mean = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    mean += g[i] * exponential(shape.score(x[i], shape.share(x[i])) - log_sum);
  mean = reduce_block<Sum>(mean);
  for (int64_t i = threadIdx.x; i < shape.width; i += blockDim.x) {
    const bool seen = i >= begin && i < end;
    const S share = shape.share(x[i]), probability = exponential(shape.score(x[i], share) - log_sum);
    const S through = (g[i] - mean) * probability * (1 - share * share) * shape.scale;
    p[i] = narrow<P>(seen ? probability : S(0));
    to[i] = narrow<P>(seen ? through : S(0));
  }
}

}  // namespace plimsoll::cuda
