#include "ops/attention/capped_softmax_launch.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <limits>

#include "cuda_on_cpu/kernel_testing.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

constexpr int64_t kQueries = 6, kMatrices = 3, kRows = kQueries * kMatrices;

struct Seen {
  bool causal;
  int64_t first_seen, seen;
};

CappedSoftmax softmax_of(const Tensor& scores, const Seen& seen, double cap, void* logsumexp) {
  return {.scores = rows(scores),
          .scale = 0.4,
          .cap = cap,
          .width = scores.size(1),
          .first_seen = seen.first_seen,
          .seen = seen.seen,
          .causal = seen.causal,
          .logsumexp = logsumexp};
}

/// By ATen in float64.
struct Reference {
  Tensor probabilities, logsumexp, grad_scores;
};
Reference reference(const Tensor& scores, const Tensor& grad, const Seen& seen, double cap) {
  const Tensor x = scores.to(at::kDouble).detach().requires_grad_(true);
  Tensor capped = x * softmax_of(scores, seen, cap, nullptr).scale;
  if (cap > 0) capped = cap * at::tanh(capped / cap);
  const Tensor column = at::arange(scores.size(1)).unsqueeze(0), query = (at::arange(kRows) % kQueries).unsqueeze(1);
  const Tensor hidden = (column < seen.first_seen + query).logical_or(column >= seen.seen + query);
  if (seen.causal) capped = capped.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  const Tensor probabilities = at::softmax(capped, 1);
  (probabilities * grad.to(at::kDouble)).sum().backward();
  return {probabilities.detach(), at::logsumexp(capped, 1).detach(), x.grad()};
}

TEST(CudaCappedSoftmax, AgreesWithATen) {
  at::manual_seed(11);
  for (const auto wide : {at::kFloat, at::kDouble})
    for (const auto narrow : {wide, at::kBFloat16, at::kHalf}) {
      if (wide == at::kDouble && narrow != wide) continue;
      for (const int64_t width : {6, 31, 33, 700})
        for (const double cap : {0.0, 1.5})
          for (const Seen& seen : {Seen{false, 0, 0}, Seen{true, -kQueries, 1}, Seen{true, -3, 2}, Seen{true, 1, 3}}) {
            if (seen.first_seen + kQueries > width) continue;  // a row that sees nothing
            const Tensor scores = random_rows(kRows, width, wide).mul_(3), grad = random_rows(kRows, width, wide);
            const Reference want = reference(scores, grad, seen, cap);
            // The logsumexp of adjacent heads are ten elements apart.
            const Tensor logsumexp = unwritten({kMatrices, 10}, wide),
                         probabilities = unwritten({kRows, width}, narrow), again = unwritten({kRows, width}, narrow),
                         grad_scores = unwritten({kRows, width}, narrow);
            const cuda::ScoreRows args{.softmax = softmax_of(scores, seen, cap, logsumexp.data_ptr()),
                                       .rows = kRows,
                                       .queries = kQueries,
                                       .logsumexp_stride = 10};
            cuda::launch_capped_softmax(args, rows(probabilities), nullptr);
            cuda::launch_capped_softmax_backward(args, const_rows(grad), rows(again), rows(grad_scores), nullptr);
            const double close = tolerance(narrow) / 4;
            const std::string what = std::string(c10::toString(narrow)) + " " + std::to_string(width);
            expect_close(probabilities, want.probabilities, close, what + " probabilities");
            expect_close(again, want.probabilities, close, what + " probabilities again");
            expect_close(logsumexp.narrow(1, 0, kQueries), want.logsumexp.view({kMatrices, kQueries}),
                         wide == at::kDouble ? 1e-9 : 1e-5, what + " logsumexp", 1.0);
            expect_close(grad_scores, want.grad_scores, close, what + " gradient", 1.0);
          }
    }
}

TEST(CudaCappedSoftmax, WritesOverWhatItReads) {
  for (const auto order : kOrders) {
    const InOrder in(order);
    const Seen seen{true, -2, 3};
    Tensor scores = random_rows(kRows, 200, at::kFloat), grad = random_rows(kRows, 200, at::kFloat);
    const Tensor kept = scores.clone(), logsumexp = unwritten({kRows}, at::kFloat);
    const Reference want = reference(scores, grad, seen, 2.0);
    const cuda::ScoreRows args{.softmax = softmax_of(scores, seen, 2.0, logsumexp.data_ptr()),
                               .rows = kRows,
                               .queries = kQueries,
                               .logsumexp_stride = kQueries};
    cuda::launch_capped_softmax(args, rows(scores), nullptr);
    expect_close(scores, want.probabilities, 1e-5, "probabilities");
    scores.copy_(kept);
    cuda::launch_capped_softmax_backward(args, const_rows(grad), rows(scores), rows(grad), nullptr);
    expect_close(scores, want.probabilities, 1e-5, "probabilities again");
    expect_close(grad, want.grad_scores, 1e-5, "gradient");
  }
}

}  // namespace
}  // namespace plimsoll::ops
