#include <algorithm>

#include "ops/attention/capped_softmax_kernels.cuh"
#include "ops/attention/capped_softmax_launch.h"
#include "ops/dtype_switch.h"

namespace plimsoll::cuda {
namespace {

template <typename S>
ScoreShape<S> shape_of(const ScoreRows& args) {
  const ops::CappedSoftmax& softmax = args.softmax;
  index32(softmax.width + args.queries);
  index32(args.mask.key_stride);
  // Rows see no fewer and no more columns from these limits on.
  const auto limited = [&](int64_t column) { return index32(std::clamp(column, -args.queries, softmax.width)); };
  return {index32(softmax.width), index32(args.queries),         limited(softmax.first_seen), limited(softmax.seen),
          softmax.causal,         static_cast<S>(softmax.scale), static_cast<S>(softmax.cap)};
}

/// Returns true if scores have a mask, or probabilities dropout.
bool is_changed(const ScoreRows& args) {
  return args.mask.data != nullptr || args.dropout.rule.threshold > 0;
}

/// Calls work.operator()<S, P>() with the types of the scores and of the probabilities.
template <typename Work>
void with_score_types(DType scores, DType probabilities, Work work) {
  check(scores == DType::float32 || scores == DType::float64, "scores are of the accumulator's type");
  with_types(scores, probabilities, [&]<typename S, typename P>() {
    if constexpr (sizeof(S) >= 4) work.template operator()<S, P>();
  });
}

}  // namespace

void launch_capped_softmax(const ScoreRows& args, const ops::Rows& probabilities, cudaStream_t stream) {
  if (args.rows == 0) return;
  with_score_types(args.softmax.scores.dtype, probabilities.dtype, [&]<typename S, typename P>() {
    const auto run = [&](auto kernel, const auto&... changes) {
      launch(kernel, dim3(static_cast<unsigned>(args.rows)), dim3(row_threads(args.softmax.width, 512)), 0, stream,
             static_cast<const S*>(args.softmax.scores.data), args.softmax.scores.stride,
             static_cast<P*>(probabilities.data), probabilities.stride, static_cast<S*>(args.softmax.logsumexp),
             args.logsumexp_stride, shape_of<S>(args), changes...);
    };
    if (is_changed(args))
      run(&changed_softmax<S, P>, args.mask, args.dropout);
    else
      run(&capped_softmax<S, P>);
  });
}

void launch_capped_softmax_backward(const ScoreRows& args, const ops::ConstRows& grad, const ops::Rows& probabilities,
                                    const ops::Rows& grad_scores, cudaStream_t stream) {
  if (args.rows == 0) return;
  check(probabilities.dtype == grad_scores.dtype && grad.dtype == args.softmax.scores.dtype, "types of scores");
  with_score_types(args.softmax.scores.dtype, probabilities.dtype, [&]<typename S, typename P>() {
    const auto run = [&](auto kernel, const auto&... changes) {
      launch(kernel, dim3(static_cast<unsigned>(args.rows)), dim3(row_threads(args.softmax.width, 512)), 0, stream,
             static_cast<const S*>(args.softmax.scores.data), args.softmax.scores.stride,
             static_cast<const S*>(grad.data), grad.stride, static_cast<P*>(probabilities.data), probabilities.stride,
             static_cast<P*>(grad_scores.data), grad_scores.stride, static_cast<const S*>(args.softmax.logsumexp),
             args.logsumexp_stride, shape_of<S>(args), changes...);
    };
    if (is_changed(args))
      run(&changed_softmax_backward<S, P>, args.mask, args.dropout);
    else
      run(&capped_softmax_backward<S, P>);
  });
}

}  // namespace plimsoll::cuda
