#include "ops/attention/attention.h"
#include "ops/kernel_choice.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "ops/attention/attention_plan.h"
#include "ops/ops_testing.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

struct AttentionCase {
  int64_t batch, heads, kv_heads, queries, keys, width;
  bool causal = true;
  int64_t window = 0;
};

const std::vector<AttentionCase>& attention_cases() {
  static const std::vector<AttentionCase> all = {
      {2, 4, 4, 33, 33, 16},
      {1, 1, 1, 1, 1, 8},
      {2, 7, 1, 40, 40, 64},
      {2, 6, 3, 50, 50, 10},
      {1, 8, 4, 200, 200, 32},
      {3, 2, 2, 20, 31, 16, false},
      {2, 4, 2, 17, 5, 8, false},
      {2, 2, 2, 300, 300, 16, true, 40},
      {1, 4, 2, 300, 300, 16, true, 1},
      {3, 4, 2, 130, 130, 8, true, 100},
      {2, 3, 1, 90, 90, 24, true, 500},
      {1, 2, 1, 700, 700, 8, true, 600},
      {1, 2, 2, 800, 800, 16},
      {1, 6, 3, 260, 260, 16, true, 129},
      {2, 4, 2, 90, 90, 16, true, 20},
      {1, 2, 1, 64, 64, 64},
      {1, 2, 1, 65, 65, 36},
      {1, 1, 1, 129, 129, 16, true, 64},
      {1, 2, 2, 128, 128, 256, true, 65},
      {1, 2, 1, 16, 193, 48, false},
      {1, 2, 1, 70, 70, 7},
  };
  return all;
}

std::string name(const AttentionCase& c) {
  return c10::str("B=", c.batch, " Hq=", c.heads, " Hkv=", c.kv_heads, " T=", c.queries, " S=", c.keys, " D=", c.width,
                  c.causal ? " causal" : "", " window=", c.window);
}

Tensor scores(const AttentionCase& c, const Tensor& q, const Tensor& k) {
  const Tensor all =
      at::matmul(q, k.repeat_interleave(c.heads / c.kv_heads, 1).transpose(2, 3)) / std::sqrt(double(c.width));
  if (!c.causal) return all;
  const Tensor i = at::arange(c.queries).unsqueeze(1), j = at::arange(c.keys).unsqueeze(0);
  Tensor hidden = j > i;
  if (c.window) hidden = hidden.logical_or(j <= i - c.window);
  return all.masked_fill(hidden, -std::numeric_limits<double>::infinity());
}

Tensor attention_reference(const AttentionCase& c, const Tensor& q, const Tensor& k, const Tensor& v) {
  return at::matmul(at::softmax(scores(c, q, k), -1), v.repeat_interleave(c.heads / c.kv_heads, 1));
}

/// [B, H, T, D] as a model makes it: a transposed view of [B, T, H, D].
Tensor random_heads(int64_t batch, int64_t heads, int64_t tokens, int64_t width, at::ScalarType type) {
  return torch::randn({batch, tokens, heads, width}, at::kDouble).to(type).transpose(1, 2);
}

TEST(Attention, AgreesWithItsParts) {
  torch::manual_seed(1);
  const Threads one(1);
  for (const AttentionCase& c : attention_cases()) {
    for (const auto type : kTypes) {
      const Tensor q = random_heads(c.batch, c.heads, c.queries, c.width, type).requires_grad_(true);
      const Tensor k = random_heads(c.batch, c.kv_heads, c.keys, c.width, type).requires_grad_(true);
      const Tensor v = random_heads(c.batch, c.kv_heads, c.keys, c.width, type).requires_grad_(true);
      std::vector<Tensor> exact;
      for (const Tensor& t : {q, k, v}) exact.push_back(t.detach().to(at::kDouble).requires_grad_(true));
      const Tensor grad = random_heads(c.batch, c.heads, c.queries, c.width, type);
      const Tensor out = attention(q, k, v, c.causal, c.window),
                   want = attention_reference(c, exact[0], exact[1], exact[2]);
      out.backward(grad);
      want.backward(grad.to(at::kDouble));
      const double error = tolerance(type);
      expect_close(out, want, error, name(c) + " out", 0.1);
      expect_close(q.grad(), exact[0].grad(), error, name(c) + " dq", 0.1);
      expect_close(k.grad(), exact[1].grad(), error, name(c) + " dk", 0.1);
      expect_close(v.grad(), exact[2].grad(), error, name(c) + " dv", 0.1);
    }
  }
}

Tensor capped_reference(const AttentionCase& c, const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                        double cap) {
  const Tensor all = at::matmul(q, k.repeat_interleave(c.heads / c.kv_heads, 1).transpose(2, 3)) * scale;
  Tensor capped = cap * at::tanh(all / cap);
  if (c.causal) {
    const Tensor i = at::arange(c.queries).unsqueeze(1), j = at::arange(c.keys).unsqueeze(0);
    Tensor hidden = j > i;
    if (c.window) hidden = hidden.logical_or(j <= i - c.window);
    capped = capped.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  return at::matmul(at::softmax(capped, -1), v.repeat_interleave(c.heads / c.kv_heads, 1));
}

TEST(Attention, CapsItsScores) {
  torch::manual_seed(6);
  const Threads one(1);
  for (const AttentionCase& c : attention_cases()) {
    for (const auto type : kTypes) {
      for (const double cap : {1.5, 50.0}) {
        const Tensor q = random_heads(c.batch, c.heads, c.queries, c.width, type).requires_grad_(true);
        const Tensor k = random_heads(c.batch, c.kv_heads, c.keys, c.width, type).requires_grad_(true);
        const Tensor v = random_heads(c.batch, c.kv_heads, c.keys, c.width, type).requires_grad_(true);
        std::vector<Tensor> exact;
        for (const Tensor& t : {q, k, v}) exact.push_back(t.detach().to(at::kDouble).requires_grad_(true));
        const Tensor grad = random_heads(c.batch, c.heads, c.queries, c.width, type);
        const double scale = 0.4;
        const Tensor out = attention(q, k, v, {c.causal, c.window, scale, cap});
        const Tensor want = capped_reference(c, exact[0], exact[1], exact[2], scale, cap);
        out.backward(grad);
        want.backward(grad.to(at::kDouble));
        const double error = tolerance(type);
        const std::string what = name(c) + c10::str(" ", c10::toString(type), " cap ", cap);
        expect_close(out, want, error, what + " out", 0.1);
        // If a query sees one key alone, these are zero: only the rounding of terms that cancel is left.
        expect_close(q.grad(), exact[0].grad(), error, what + " dq", 0.25);
        expect_close(k.grad(), exact[1].grad(), error, what + " dk", 0.25);
        expect_close(v.grad(), exact[2].grad(), error, what + " dv", 0.1);
      }
    }
  }
}

// A window longer than the sequence hides nothing, for any length.
TEST(Attention, AWindowMayBeLongerThanAnySequence) {
  torch::manual_seed(16);
  for (const auto type : kTypes)
    for (const int64_t tokens : {5, 64, 150}) {
      const Tensor q = random_heads(1, 2, tokens, 16, type), k = random_heads(1, 2, tokens, 16, type);
      const Tensor plain = attention(q, k, k, true, 0);
      for (const int64_t window : {tokens, int64_t{1} << 31, std::numeric_limits<int64_t>::max()})
        EXPECT_TRUE(at::equal(attention(q, k, k, true, window), plain)) << tokens << " " << window;
    }
}

// The largest score of a row counts as 1, also if scores are so large that rounding moves them by more.
TEST(Attention, LargeScoresChooseTheirKey) {
  torch::manual_seed(17);
  const int64_t tokens = 70, width = 8;
  for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble})
    for (const double size : {1e3, 1e5}) {
      const Tensor q = random_heads(1, 1, tokens, width, type).mul_(size).requires_grad_(true);
      const Tensor k = random_heads(1, 1, tokens, width, type).mul_(size).requires_grad_(true);
      const Tensor v = random_heads(1, 1, tokens, width, type).requires_grad_(true);
      const Tensor out = attention(q, k, v, true, 0);
      const Tensor scores = at::matmul(q.detach().to(at::kDouble), k.detach().to(at::kDouble).transpose(2, 3));
      const Tensor seen = scores.masked_fill(at::ones({tokens, tokens}, at::kBool).triu(1), -1e300);
      const Tensor chosen = std::get<1>(seen.max(-1));  // far above all others
      const Tensor want = v.detach().to(at::kDouble)[0][0].index_select(0, chosen.flatten());
      expect_close(out[0][0], want, tolerance(type), "out");
      out.backward(at::ones_like(out));
      for (const Tensor& each : {q, k, v}) EXPECT_TRUE(at::isfinite(each.grad()).all().item<bool>());
      const Tensor times =
          at::zeros({tokens}, at::kDouble).index_add(0, chosen.flatten(), at::ones({tokens}, at::kDouble));
      expect_close(v.grad()[0][0].select(1, 0), times, tolerance(type), "dv");
    }
}

TEST(Attention, TakesAScale) {
  torch::manual_seed(7);
  const AttentionCase c{2, 4, 2, 40, 40, 16, true, 9};
  const Tensor q = random_heads(2, 4, 40, 16, at::kFloat), k = random_heads(2, 2, 40, 16, at::kFloat);
  const Tensor out = attention(q, k, k, {.window = 9, .scale = 0.1});
  expect_close(out, capped_reference(c, q.to(at::kDouble), k.to(at::kDouble), k.to(at::kDouble), 0.1, 1e9), 5e-5,
               "scaled");
}

// In double precision, against differences of the result.
TEST(Attention, ACappedGradientIsTheDifferenceOfResults) {
  torch::manual_seed(8);
  const AttentionOptions options{.window = 3, .scale = 0.7, .softcap = 1.2};
  std::vector<Tensor> in;
  for (const int64_t heads : {4, 2, 2})
    in.push_back(random_heads(1, heads, 5, 3, at::kDouble).detach().clone().requires_grad_(true));
  const Tensor direction = torch::randn({1, 4, 5, 3}, at::kDouble);
  const auto value = [&](const std::vector<Tensor>& at) {
    return (attention(at[0], at[1], at[2], options) * direction).sum();
  };
  value(in).backward();
  const at::NoGradGuard no_grad;
  for (size_t which = 0; which < 3; ++which)
    for (int64_t i = 0; i < in[which].numel(); ++i) {
      const auto moved = [&](double change) {
        std::vector<Tensor> there = in;
        there[which] = in[which].detach().contiguous().clone();
        there[which].view({-1})[i] += change;
        return value(there).item<double>();
      };
      EXPECT_NEAR(in[which].grad().contiguous().view({-1})[i].item<double>(), (moved(1e-5) - moved(-1e-5)) / 2e-5, 1e-8)
          << which << " " << i;
    }
}

TEST(Attention, ACapAnnouncesItsResultsAndItsWorkspace) {
  torch::manual_seed(9);
  for (const AttentionCase& c : attention_cases()) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const Tensor q = random_heads(c.batch, c.heads, c.queries, c.width, type);
      const Tensor k = random_heads(c.batch, c.kv_heads, c.keys, c.width, type);
      SCOPED_TRACE(name(c) + " " + c10::toString(type));
      const std::vector<c10::IValue> forward = {q, k, k, c.causal, c.window, c10::IValue(), 20.0};
      expect_meta_agrees("plimsoll::attention", forward);
      expect_workspace("plimsoll::attention", forward);
      const auto results = call("plimsoll::attention", forward);
      const Tensor apart = q.transpose(2, 3).contiguous().transpose(2, 3);
      const std::vector<c10::IValue> backward = {q,        apart,         k,   k, results[0], results[1], c.causal,
                                                 c.window, c10::IValue(), 20.0};
      expect_meta_agrees("plimsoll::attention_backward", backward);
      expect_workspace("plimsoll::attention_backward", backward);
    }
  }
}

TEST(Attention, MergingTheHeadsIsAView) {
  const Tensor q = random_heads(2, 4, 10, 8, at::kFloat), k = random_heads(2, 2, 10, 8, at::kFloat);
  const Tensor out = attention(q, k, k);
  EXPECT_TRUE(out.transpose(1, 2).reshape({2, 10, 32}).is_alias_of(out));
}

TEST(Attention, KeepsTheLogOfTheSum) {
  torch::manual_seed(2);
  for (const AttentionCase& c : attention_cases()) {
    const Tensor q = random_heads(c.batch, c.heads, c.queries, c.width, at::kFloat);
    const Tensor k = random_heads(c.batch, c.kv_heads, c.keys, c.width, at::kFloat);
    const auto results = call("plimsoll::attention", {q, k, k, c.causal, c.window, c10::IValue(), 0.0});
    expect_close(results[1].toTensor(), at::logsumexp(scores(c, q.to(at::kDouble), k.to(at::kDouble)), -1), 1e-5,
                 name(c));
  }
}

TEST(Attention, AnnouncesItsResultsAndItsWorkspace) {
  torch::manual_seed(3);
  for (const AttentionCase& c : attention_cases()) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
      if (type == at::kDouble && c.queries > 100) continue;
      Tensor q = random_heads(c.batch, c.heads, c.queries, c.width, type);
      const Tensor k = random_heads(c.batch, c.kv_heads, c.keys, c.width, type);
      const Tensor v = torch::randn({c.batch, c.kv_heads, c.keys, c.width}).to(type);
      for (const bool last_dim_apart : {false, true}) {
        if (last_dim_apart && type != at::kFloat) continue;
        if (last_dim_apart) q = q.transpose(2, 3).contiguous().transpose(2, 3);
        SCOPED_TRACE(name(c) + " " + c10::toString(type) + (last_dim_apart ? " strided" : ""));
        const std::vector<c10::IValue> forward = {q, k, v, c.causal, c.window, c10::IValue(), 0.0};
        expect_meta_agrees("plimsoll::attention", forward);
        expect_workspace("plimsoll::attention", forward);
        const auto results = call("plimsoll::attention", forward);
        for (const Tensor& grad : {random_heads(c.batch, c.heads, c.queries, c.width, type),
                                   torch::ones({}).to(type).expand(q.sizes()), torch::randn(q.sizes()).to(type)}) {
          const std::vector<c10::IValue> backward = {
              grad, q, k, v, results[0], results[1], c.causal, c.window, c10::IValue(), 0.0};
          expect_meta_agrees("plimsoll::attention_backward", backward);
          expect_workspace("plimsoll::attention_backward", backward);
        }
      }
    }
  }
}

// dq, dk and dv as parts of one tensor.
TEST(Attention, WritesGradientsIntoGivenTensors) {
  torch::manual_seed(6);
  for (const AttentionCase& c : attention_cases())
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      if (c.queries != c.keys) continue;
      const Tensor q = random_heads(c.batch, c.heads, c.queries, c.width, type), grad = at::randn_like(q);
      const Tensor k = random_heads(c.batch, c.kv_heads, c.keys, c.width, type), v = at::randn_like(k);
      SCOPED_TRACE(name(c) + " " + c10::toString(type));
      const auto forward = call("plimsoll::attention", {q, k, v, c.causal, c.window, c10::IValue(), 0.0});
      std::vector<c10::IValue> backward = {grad,          q,  k, v, forward[0], forward[1], c.causal, c.window,
                                           c10::IValue(), 0.0};
      const auto made = call("plimsoll::attention_backward", backward);
      const Tensor packed = at::full({c.batch, c.queries, c.heads + 2 * c.kv_heads, c.width}, 7, type).transpose(1, 2);
      for (const c10::IValue& rest : {c10::IValue(), c10::IValue(), c10::IValue(0.0)}) backward.push_back(rest);
      for (const Tensor& part : packed.split_with_sizes({c.heads, c.kv_heads, c.kv_heads}, 1)) backward.push_back(part);
      call("plimsoll::attention_backward.out", backward);
      EXPECT_TRUE(at::equal(packed, at::cat({made[0].toTensor(), made[1].toTensor(), made[2].toTensor()}, 1)));
      expect_workspace("plimsoll::attention_backward.out", backward);
      for (const auto& [index, wrong] : {std::pair{size_t{0}, grad.narrow(2, 0, c.queries - 1)},
                                         {size_t{4}, q.narrow(2, 0, c.queries - 1)},
                                         {backward.size() - 1, packed.narrow(1, 0, c.heads + 1)},
                                         {backward.size() - 2, v.to(at::kDouble)}}) {
        std::vector<c10::IValue> refused = backward;
        refused[index] = wrong;
        EXPECT_THROW(call("plimsoll::attention_backward.out", refused), UserError) << index;
      }
    }
}

TEST(Attention, TakesAnyStrides) {
  torch::manual_seed(4);
  const Tensor fused = torch::randn({2, 30, 12, 16});  // queries, keys and values contiguous
  const Tensor q = fused.narrow(2, 0, 8).transpose(1, 2), k = fused.narrow(2, 8, 2).transpose(1, 2);
  const Tensor v = fused.narrow(2, 10, 2).transpose(1, 2);
  const Tensor want = attention(q.contiguous(), k.contiguous(), v.contiguous());
  EXPECT_TRUE(at::equal(attention(q, k, v), want));
  const Tensor apart = q.transpose(2, 3).contiguous().transpose(2, 3);
  EXPECT_TRUE(at::equal(attention(apart, k, v), want));
}

/// out, logsumexp, dq, dk and dv.
std::vector<Tensor> results_of(const AttentionCase& c, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& grad, double softcap = 0) {
  const auto forward = call("plimsoll::attention", {q, k, v, c.causal, c.window, c10::IValue(), softcap});
  const auto backward = call("plimsoll::attention_backward",
                             {grad, q, k, v, forward[0], forward[1], c.causal, c.window, c10::IValue(), softcap});
  std::vector<Tensor> all;
  for (const auto* part : {&forward, &backward})
    for (const c10::IValue& value : *part) all.push_back(value.toTensor());
  return all;
}

/// The parameter is the kernel of attention in bfloat16.
class AttentionKernel : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Both, AttentionKernel, ::testing::Values("pairs", "float32"));

// One key head of one sequence is too little work for many threads: its keys are shared out in chunks then, and the
// queries' gradients come after. Neither may show.
TEST_P(AttentionKernel, GivesTheSameBitsOnAnyNumberOfThreads) {
  const KernelScope kernel("attention.bfloat16", GetParam());
  torch::manual_seed(5);
  for (const AttentionCase& c : {AttentionCase{2, 6, 2, 300, 300, 16, true, 70}, AttentionCase{1, 3, 1, 333, 333, 24},
                                 AttentionCase{1, 2, 2, 90, 150, 40, false}})
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const Tensor q = random_heads(c.batch, c.heads, c.queries, c.width, type), grad = at::randn_like(q);
      const Tensor k = random_heads(c.batch, c.kv_heads, c.keys, c.width, type), v = at::randn_like(k);
      std::vector<Tensor> first;
      for (const int threads : {1, 1, 2, 3, 5}) {
        const Threads scope(threads);
        const std::vector<Tensor> all = results_of(c, q, k, v, grad);
        if (first.empty()) first = all;
        for (size_t i = 0; i < all.size(); ++i)
          EXPECT_TRUE(at::equal(all[i], first[i])) << name(c) << " on " << threads << " threads: result " << i;
      }
    }
}

TEST(Attention, SharesWorkOutInSevenProductsOnlyWhereThreadsWouldBeIdle) {
  const AttentionShape many{4, 8, 8, 512, 512, 64, true, 0}, one{1, 8, 1, 512, 512, 64, true, 0};
  for (const int threads : {1, 2, 4, 16}) EXPECT_TRUE(backward_cut(many, threads).together) << threads;
  EXPECT_FALSE(backward_cut(many, 64).together);
  EXPECT_TRUE(backward_cut(one, 1).together);
  const BackwardCut cut = backward_cut(one, 2);
  EXPECT_FALSE(cut.together);
  EXPECT_EQ(cut.key_chunk % kAttentionBlock, 0);
  EXPECT_GE(cut.chunks, 2);
  EXPECT_GE(cut.chunks * cut.key_chunk, one.keys);
}

TEST(Attention, TasksAreAPermutationOfTheBlocks) {
  for (const int64_t count : {1, 2, 7, 16}) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < count; ++i) order.push_back(balanced(i, count));
    std::ranges::sort(order);
    for (int64_t i = 0; i < count; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  }
}

// Random shapes against float64, ours and libtorch's kernels: over all of them ours are as exact, and never much less.
// In float32 both errors are rounding errors of sums, whose order is MKL's choice for each processor, and libtorch's
// exp is exact without vector instructions: its sum of errors is up to a tenth lower then.
TEST_P(AttentionKernel, IsAsExactAsLibtorch) {
  const KernelScope kernel("attention.bfloat16", GetParam());
  std::mt19937 random(11);
  const auto draw = [&](int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random); };
  torch::manual_seed(11);
  const Threads one(1);
  double our_errors[2][4]{}, their_errors[2][4]{};
  for (int trial = 0; trial < 24; ++trial) {
    AttentionCase c{draw(1, 2), 0, draw(1, 2), draw(1, 200), 0, draw(2, 80), draw(0, 2) > 0};
    c.heads = c.kv_heads * draw(1, 3);
    c.keys = c.causal ? c.queries : draw(1, 200);
    if (c.causal && draw(0, 2) == 0) c.window = draw(1, c.queries + 10);
    const double size = trial % 4 == 0 ? 6 : 1;  // large scores: one key has nearly all the weight
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const Tensor q = size * random_heads(c.batch, c.heads, c.queries, c.width, type), grad = at::randn_like(q);
      const Tensor k = random_heads(c.batch, c.kv_heads, c.keys, c.width, type), v = at::randn_like(k);
      const std::vector<Tensor> got = results_of(c, q, k, v, grad);
      std::vector<Tensor> exact;
      for (const Tensor& t : {q, k, v}) exact.push_back(t.to(at::kDouble).requires_grad_(true));
      const Tensor want = attention_reference(c, exact[0], exact[1], exact[2]);
      want.backward(grad.to(at::kDouble));
      // libtorch's, on repeated heads and with a mask.
      const Tensor rk = k.repeat_interleave(c.heads / c.kv_heads, 1), rv = v.repeat_interleave(c.heads / c.kv_heads, 1);
      Tensor hidden = at::ones({c.queries, c.keys}, at::kBool).tril();
      if (c.window) hidden = hidden.triu(1 - c.window);
      const auto mask =
          c.causal
              ? std::optional(
                    at::zeros({c.queries, c.keys}, type).masked_fill(~hidden, -std::numeric_limits<double>::infinity()))
              : std::nullopt;
      const auto [out, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(q, rk, rv, 0.0, false, mask);
      const auto [dq, dk, dv] =
          at::_scaled_dot_product_flash_attention_for_cpu_backward(grad, q, rk, rv, out, log_sum, 0.0, false, mask);
      const auto grouped = [&](const Tensor& gradient) {
        return gradient.to(at::kDouble).unflatten(1, {c.kv_heads, c.heads / c.kv_heads}).sum(2);
      };
      const Tensor expected[] = {out, dq, grouped(dk), grouped(dv)};
      const Tensor ours[] = {got[0], got[2], got[3], got[4]};
      const Tensor wanted[] = {want, exact[0].grad(), exact[1].grad(), exact[2].grad()};
      for (int i = 0; i < 4; ++i) {
        const auto error = [&](const Tensor& x) {
          return (x.to(at::kDouble) - wanted[i]).norm().item<double>() / (wanted[i].norm().item<double>() + 0.1);
        };
        EXPECT_TRUE(at::isfinite(ours[i]).all().item<bool>());
        EXPECT_LE(error(ours[i]), 1.2 * error(expected[i]) + (type == at::kFloat ? 1e-6 : 1e-3))
            << "trial " << trial << ", " << name(c) << " " << c10::toString(type) << ", result " << i;
        our_errors[type == at::kFloat][i] += error(ours[i]);
        their_errors[type == at::kFloat][i] += error(expected[i]);
      }
    }
  }
  for (const int wide : {0, 1})
    for (int i = 0; i < 4; ++i)
      EXPECT_LE(our_errors[wide][i], (wide ? 1.2 : 1.05) * their_errors[wide][i])
          << (wide ? "float32" : "bfloat16") << " result " << i;
}

TEST(Attention, AutocastLowersItsOperands) {
  const Tensor q = random_heads(1, 2, 8, 8, at::kFloat).requires_grad_(true);
  Tensor out;
  {
    const Autocast autocast(at::kBFloat16);
    out = attention(q, q, q);
  }
  EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  out.sum().backward();
  EXPECT_EQ(q.grad().scalar_type(), at::kFloat);
}

TEST(Attention, RefusesWhatDoesNotAgree) {
  const Tensor q = torch::randn({1, 4, 8, 16}), k = torch::randn({1, 3, 8, 16}), even = torch::randn({1, 2, 8, 16});
  EXPECT_THROW(attention(q, k, k), UserError);
  EXPECT_THROW(attention(q, even, even.to(at::kDouble)), UserError);
  EXPECT_THROW(attention(q, even, even, false, 4), UserError);
  EXPECT_THROW(attention(q, even, even, true, -1), UserError);
  EXPECT_THROW(attention(q.narrow(2, 0, 4), even, even), UserError);
}

}  // namespace
}  // namespace plimsoll::ops
