// Measures attention's CPU kernels and libtorch's flash attention, forward and backward separately, over training
// shapes. Run it on an idle machine:
//    OMP_NUM_THREADS=1 attention_bench --benchmark_repetitions=7 --benchmark_enable_random_interleaving=true
// If libtorch's operator has no grouped heads or window, it is given the repeated heads and a mask, made beforehand.
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include <limits>

#include "ops/attention/attention.h"
#include "ops/op_support.h"

namespace {

using at::Tensor;

struct Shape {
  const char* name;
  int64_t batch, heads, kv_heads, tokens, width;
  bool causal;
  int64_t window = 0;
};
constexpr Shape kShapes[] = {
    {"2x7x512x64/causal", 2, 7, 7, 512, 64, true},
    {"2x7(1)x512x64/causal", 2, 7, 1, 512, 64, true},
    {"8x7x1024x64/causal", 8, 7, 7, 1024, 64, true},
    {"16x2x36x16", 16, 2, 2, 36, 16, false},
    {"16x4x144x32", 16, 4, 4, 144, 32, false},
    {"4x8x2048x128/causal", 4, 8, 8, 2048, 128, true},
    {"1x8(2)x4096x64/window512", 1, 8, 2, 4096, 64, true, 512},
};

struct Operands {
  Operands(const Shape& s, at::ScalarType type) {
    torch::manual_seed(1);
    const auto random = [&](int64_t heads) {
      return torch::randn({s.batch, s.tokens, heads, s.width}).to(type).transpose(1, 2);
    };
    q = random(s.heads);
    k = random(s.kv_heads);
    v = random(s.kv_heads);
    grad = random(s.heads);
  }
  Tensor q, k, v, grad;
};

using Forward = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, bool, int64_t,
                                           std::optional<double>, double);
using Backward = std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                    const Tensor&, const Tensor&, bool, int64_t, std::optional<double>,
                                                    double);

void ours(benchmark::State& state, const Shape& s, at::ScalarType type, bool backward) {
  const Operands in(s, type);
  const at::NoGradGuard no_grad;
  const auto forward_handle = plimsoll::ops::operator_handle<Forward>("plimsoll::attention");
  const auto backward_handle = plimsoll::ops::operator_handle<Backward>("plimsoll::attention_backward");
  const auto [out, logsumexp] = forward_handle.call(in.q, in.k, in.v, s.causal, s.window, std::nullopt, 0);
  for (auto _ : state) {
    if (backward)
      benchmark::DoNotOptimize(
          backward_handle.call(in.grad, in.q, in.k, in.v, out, logsumexp, s.causal, s.window, std::nullopt, 0));
    else
      benchmark::DoNotOptimize(plimsoll::ops::attention(in.q, in.k, in.v, s.causal, s.window));
  }
}

void libtorch(benchmark::State& state, const Shape& s, at::ScalarType type, bool backward) {
  const Operands in(s, type);
  const at::NoGradGuard no_grad;
  const Tensor k = in.k.repeat_interleave(s.heads / s.kv_heads, 1), v = in.v.repeat_interleave(s.heads / s.kv_heads, 1);
  std::optional<Tensor> mask;
  if (s.window > 0) {
    const Tensor seen = at::ones({s.tokens, s.tokens}, at::kBool).tril().triu(1 - s.window);
    mask = at::zeros({s.tokens, s.tokens}, type).masked_fill(~seen, -std::numeric_limits<double>::infinity());
  }
  const bool causal = s.causal && !mask;
  const auto forward = [&] { return at::_scaled_dot_product_flash_attention_for_cpu(in.q, k, v, 0.0, causal, mask); };
  const auto [out, logsumexp] = forward();
  for (auto _ : state) {
    if (backward)
      benchmark::DoNotOptimize(at::_scaled_dot_product_flash_attention_for_cpu_backward(in.grad, in.q, k, v, out,
                                                                                        logsumexp, 0.0, causal, mask));
    else
      benchmark::DoNotOptimize(forward());
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const Shape& shape : kShapes)
    for (const auto type : {at::kBFloat16, at::kFloat})
      for (const bool backward : {false, true})
        for (const bool is_ours : {true, false}) {
          const std::string name = std::string(shape.name) + (type == at::kFloat ? "/float32" : "/bfloat16") +
                                   (backward ? "/backward" : "/forward") + (is_ours ? "/ours" : "/libtorch");
          benchmark::RegisterBenchmark(name.c_str(),
                                       [&shape, type, backward, is_ours](benchmark::State& state) {
                                         (is_ours ? ours : libtorch)(state, shape, type, backward);
                                       })
              ->Unit(benchmark::kMicrosecond)
              ->MeasureProcessCPUTime();
        }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
