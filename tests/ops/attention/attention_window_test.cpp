// Sliding windows whose edge falls next to the edge of a block of 64 queries or keys.
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>

#include "ops/attention/attention.h"
#include "ops/ops_testing.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

constexpr int64_t kHeads = 2, kWidth = 8;
constexpr int64_t kWindows[] = {63, 64, 65, 127, 128, 191};
constexpr int64_t kTokens[] = {200, 321};

Tensor random_heads(int64_t heads, int64_t tokens, at::ScalarType type) {
  return torch::randn({1, tokens, heads, kWidth}, at::kDouble).to(type).transpose(1, 2);
}

/// bool [tokens, tokens]: query i does not see key j. It sees the `window` keys up to its own.
Tensor hidden_keys(int64_t tokens, int64_t window) {
  const Tensor i = at::arange(tokens).unsqueeze(1), j = at::arange(tokens).unsqueeze(0);
  return (j > i).logical_or(j <= i - window);
}

Tensor window_reference(const Tensor& q, const Tensor& k, const Tensor& v, int64_t window) {
  const Tensor scores = at::matmul(q, k.repeat_interleave(kHeads, 1).transpose(2, 3)) / std::sqrt(double(kWidth));
  const Tensor seen = scores.masked_fill(hidden_keys(q.size(2), window), -std::numeric_limits<double>::infinity());
  return at::matmul(at::softmax(seen, -1), v.repeat_interleave(kHeads, 1));
}

TEST(AttentionWindow, AgreesWithDoublePrecisionNextToTheEdgesOfBlocks) {
  torch::manual_seed(21);
  for (const int64_t tokens : kTokens)
    for (const int64_t window : kWindows)
      for (const auto type : {at::kFloat, at::kDouble}) {
        if (type == at::kDouble && tokens > 200) continue;
        const Tensor q = random_heads(kHeads, tokens, type).requires_grad_(true);
        const Tensor k = random_heads(1, tokens, type).requires_grad_(true);
        const Tensor v = random_heads(1, tokens, type).requires_grad_(true);
        std::vector<Tensor> exact;
        for (const Tensor& t : {q, k, v}) exact.push_back(t.detach().to(at::kDouble).requires_grad_(true));
        const Tensor grad = random_heads(kHeads, tokens, type);
        const Tensor out = attention(q, k, v, true, window),
                     want = window_reference(exact[0], exact[1], exact[2], window);
        out.backward(grad);
        want.backward(grad.to(at::kDouble));
        const std::string what = c10::str(tokens, " tokens, window ", window, " ", c10::toString(type));
        expect_close(out, want, tolerance(type), what + " out", 0.1);
        expect_close(q.grad(), exact[0].grad(), tolerance(type), what + " dq", 0.1);
        expect_close(k.grad(), exact[1].grad(), tolerance(type), what + " dk", 0.1);
        expect_close(v.grad(), exact[2].grad(), tolerance(type), what + " dv", 0.1);
      }
}

// The tolerance of 16-bit types would hide one key among a hundred. A key that a query does not see must not change a
// bit, in either direction.
TEST(AttentionWindow, AKeyOutsideTheWindowChangesNoBit) {
  torch::manual_seed(22);
  const int64_t tokens = 200;
  for (const int64_t window : kWindows)
    for (const auto type : kTypes)
      for (const int64_t key : {0, 63, 64, 65}) {
        const std::string what = c10::str("window ", window, " ", c10::toString(type), ", key ", key);
        const Tensor q = random_heads(kHeads, tokens, type), k = random_heads(1, tokens, type);
        const Tensor v = random_heads(1, tokens, type);
        const Tensor sees = hidden_keys(tokens, window).select(1, key).logical_not();
        Tensor other_k = k.clone(), other_v = v.clone();
        other_k.select(2, key).neg_();
        other_v.select(2, key).fill_(100);
        const Tensor before = attention(q, k, v, true, window), after = attention(q, other_k, other_v, true, window);
        EXPECT_TRUE(at::equal(before.ne(after).any(-1).any(1)[0], sees)) << what;

        const Tensor k_grad = k.clone().requires_grad_(true), v_grad = v.clone().requires_grad_(true);
        const Tensor grad = random_heads(kHeads, tokens, type).masked_fill(sees.unsqueeze(1), 0);
        attention(q, k_grad, v_grad, true, window).backward(grad);
        EXPECT_EQ(k_grad.grad().select(2, key).abs().max().item<double>(), 0) << what;
        EXPECT_EQ(v_grad.grad().select(2, key).abs().max().item<double>(), 0) << what;
      }
}

}  // namespace
}  // namespace plimsoll::ops
