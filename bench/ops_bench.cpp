// Measures our CPU operators and libtorch's composition for the same work. Run it on an idle machine:
//    ops_bench --benchmark_min_time=2 --benchmark_filter=loss
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include "ops/attention/attention.h"
#include "ops/layers/rms_norm.h"
#include "ops/layers/rope.h"
#include "ops/layers/swiglu.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/op_support.h"

namespace {

using at::Tensor;
using namespace plimsoll::ops;

at::ScalarType type_of(const benchmark::State& state) {
  return state.range(0) == 16 ? at::kBFloat16 : at::kFloat;
}

Tensor leaf(at::IntArrayRef sizes, at::ScalarType type, double scale = 1) {
  return (scale * torch::randn(sizes)).to(type).requires_grad_(true);
}

/// Runs one forward and backward for each iteration; gradients are returned, not accumulated.
template <typename Forward>
void forward_backward(benchmark::State& state, const std::vector<Tensor>& inputs, const Forward& forward) {
  Tensor grad;
  for (auto _ : state) {
    const Tensor out = forward();
    if (!grad.defined()) grad = torch::randn(out.sizes()).to(out.scalar_type());
    benchmark::DoNotOptimize(torch::autograd::grad({out}, inputs, {grad}));
  }
}

constexpr int64_t kTokens = 1024, kWidth = 448, kVocabulary = 50304;

template <bool ours>
void loss(benchmark::State& state) {
  const Tensor x = leaf({kTokens, kWidth}, type_of(state)), weight = leaf({kVocabulary, kWidth}, type_of(state), 0.02);
  const Tensor targets = torch::randint(kVocabulary, {kTokens}, at::kLong);
  forward_backward(state, {x, weight}, [&] {
    if (ours) return linear_cross_entropy(x, weight, targets);
    return at::cross_entropy_loss(at::linear(x, weight).to(at::kFloat), targets);
  });
}

/// Runs the three matrix products of the loss head alone.
void loss_products(benchmark::State& state) {
  const auto type = type_of(state);
  const Tensor x = torch::randn({kTokens, kWidth}).to(type), weight = torch::randn({kVocabulary, kWidth}).to(type);
  Tensor logits = at::empty({kTokens, kVocabulary}, type), grad_x = at::empty_like(x),
         grad_weight = at::empty_like(weight);
  for (auto _ : state) {
    at::mm_out(logits, x, weight.t());
    at::mm_out(grad_x, logits, weight);
    at::mm_out(grad_weight, logits.t(), x);
  }
}

template <bool ours>
void norm(benchmark::State& state) {
  const Tensor x = leaf({kTokens, kWidth}, type_of(state)), weight = leaf({kWidth}, type_of(state));
  forward_backward(state, {x, weight},
                   [&] { return ours ? rms_norm(x, weight) : at::rms_norm(x, {kWidth}, weight, 1e-5); });
}

/// Runs a residual stream's sum and norm, forward and backward, as one op each way or as two, as a plan's replay calls
/// them.
template <bool one>
void sum_and_norm(benchmark::State& state) {
  using Forward = std::tuple<Tensor, Tensor>(Tensor&, const Tensor&, const Tensor&, const Tensor&, double,
                                             std::optional<at::ScalarType>);
  using Norm = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, double, std::optional<at::ScalarType>);
  using Backward = Tensor(Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&);
  using NormBackward = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&);
  static const auto forward = operator_handle<Forward>("plimsoll::add_rms_norm");
  static const auto backward = operator_handle<Backward>("plimsoll::rms_norm_backward_add");
  static const auto norm_forward = operator_handle<Norm>("plimsoll::rms_norm");
  static const auto norm_backward = operator_handle<NormBackward>("plimsoll::rms_norm_backward");
  const at::NoGradGuard no_grad;
  const auto type = type_of(state);
  const int64_t tokens = state.range(1);
  const Tensor x = torch::randn({tokens, kWidth}), added = torch::randn({tokens, kWidth}).to(type),
               weight = torch::ones({kWidth}), grad_y = torch::randn({tokens, kWidth}).to(type);
  Tensor sum = at::empty_like(x), grad = torch::randn({tokens, kWidth});
  for (auto _ : state) {
    if (one) {
      const auto [y, rstd] = forward.call(sum, x, added, weight, 1e-5, type);
      benchmark::DoNotOptimize(backward.call(grad, grad, grad_y, sum, weight, rstd));
    } else {
      at::add_out(sum, x, added);
      const auto [y, rstd] = norm_forward.call(sum, weight, 1e-5, type);
      const auto [dx, dweight] = norm_backward.call(grad_y, sum, weight, rstd);
      grad.add_(dx);
    }
  }
}

template <bool ours>
void rotate(benchmark::State& state) {
  const int64_t tokens = 512, half = 32;
  const Tensor x = leaf({2, tokens, 7, 2 * half}, type_of(state));
  const Tensor angles = at::outer(at::arange(tokens), at::pow(1e4, -at::arange(half, at::kFloat) / half));
  const Tensor cosine = angles.cos().unsqueeze(1).to(type_of(state)),
               sine = angles.sin().unsqueeze(1).to(type_of(state));
  forward_backward(state, {x}, [&] {
    if (ours) return rope(x);
    const Tensor a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
    return at::cat({a * cosine - b * sine, b * cosine + a * sine}, 3);
  });
}

template <bool ours>
void gated(benchmark::State& state) {
  const Tensor x = leaf({kTokens, 2 * 1216}, type_of(state));
  forward_backward(state, {x}, [&] {
    if (ours) return swiglu(x);
    const auto halves = x.chunk(2, -1);
    return at::silu(halves[0]) * halves[1];
  });
}

template <bool ours>
void attend(benchmark::State& state) {
  const int64_t heads = 7, kv_heads = 1, tokens = 512, width = 64;
  const Tensor q = leaf({2, tokens, heads, width}, type_of(state)),
               k = leaf({2, tokens, kv_heads, width}, type_of(state));
  const Tensor v = leaf({2, tokens, kv_heads, width}, type_of(state));
  forward_backward(state, {q, k, v}, [&] {
    const Tensor a = q.transpose(1, 2), b = k.transpose(1, 2), c = v.transpose(1, 2);
    if (ours) return attention(a, b, c);
    return at::scaled_dot_product_attention(a, b.expand_as(a), c.expand_as(a), {}, 0.0, true);
  });
}

}  // namespace

#define PAIR(name)                                                                                            \
  BENCHMARK(name<true>)->Name(#name "/ours")->Arg(32)->Arg(16)->Unit(benchmark::kMillisecond)->UseRealTime(); \
  BENCHMARK(name<false>)->Name(#name "/libtorch")->Arg(32)->Arg(16)->Unit(benchmark::kMillisecond)->UseRealTime()

PAIR(loss);
BENCHMARK(loss_products)->Arg(32)->Arg(16)->Unit(benchmark::kMillisecond)->UseRealTime();
PAIR(norm);
#define SUM_AND_NORM(one, name)                          \
  BENCHMARK(sum_and_norm<one>)                           \
      ->Name("sum_and_norm/" name)                       \
      ->ArgsProduct({{32, 16}, {kTokens, 16 * kTokens}}) \
      ->Unit(benchmark::kMillisecond)                    \
      ->UseRealTime()
SUM_AND_NORM(true, "one");
SUM_AND_NORM(false, "two");
PAIR(rotate);
PAIR(gated);
PAIR(attend);

BENCHMARK_MAIN();
