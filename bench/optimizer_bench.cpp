// Seconds of an optimizer step: our operators beside libtorch's fused AdamW, which is the kernel of PyTorch's
// AdamW(fused=True) on the CPU. All kinds take turns in one process, so that a machine that slows down slows all of
// them; the median of the rounds counts. Run it on an idle machine, where each thread has a core:
//
//   optimizer_bench [elements in millions = 64] [rounds = 31] [threads = 2]
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "train/optimizer.h"

namespace {

using at::Tensor;
using namespace plimsoll;

constexpr double kRate = 1e-3;

struct Kind {
  std::string name;
  double bytes = 0;  ///< read and written for an element
  std::function<void()> step;
  std::vector<double> seconds = {};
  double median() const {
    std::vector<double> sorted = seconds;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
};

/// A parameter of its own for each kind, as every step moves it.
Kind libtorchs(int64_t elements) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 4; ++i) tensors.push_back(torch::randn({elements / 1024, 1024}).abs() * 1e-3);
  const Tensor step = at::ones({});
  return {"libtorch, float32", 28, [=] {
            at::_fused_adamw_({tensors[0]}, {tensors[1]}, {tensors[2]}, {tensors[3]}, {}, {step}, kRate, 0.9, 0.95, 0.1,
                              1e-8, false, false);
          }};
}

Kind ours(const std::string& name, int64_t elements, const OptimizerConfig& config, at::ScalarType type, double bytes) {
  auto optimizer = std::make_shared<Optimizer>(config);
  const OptimizedParameter parameter{"p", torch::randn({elements / 1024, 1024}).to(type),
                                     (torch::randn({elements / 1024, 1024}) * 1e-3).to(type)};
  optimizer->make_state({parameter});
  const UpdateScalars scalars{at::scalar_tensor(kRate, at::kDouble), at::ones({}), at::zeros({})};
  return {name, bytes, [=] { optimizer->update_one(parameter, 0, scalars); }};
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int index, long fallback) { return argc > index ? std::atol(argv[index]) : fallback; };
  const int64_t elements = argument(1, 64) * 1024 * 1024;
  const long rounds = std::max(1L, argument(2, 31));
  at::set_num_threads(static_cast<int>(argument(3, 2)));
  const torch::NoGradGuard no_grad;
  std::vector<Kind> kinds;
  kinds.push_back(libtorchs(elements));
  const auto add = [&](const char* name, const char* optimizer, StateDtype state, WeightUpdate update,
                       at::ScalarType type, double bytes) {
    OptimizerConfig config;
    config.name = optimizer;
    config.state_dtype = state;
    config.weight_update = update;
    kinds.push_back(ours(name, elements, config, type, bytes));
  };
  using S = StateDtype;
  using W = WeightUpdate;
  add("adamw, float32", "adamw", S::float32, W::nearest, at::kFloat, 28);
  add("adamw, float32, bfloat16 state", "adamw", S::bfloat16, W::stochastic, at::kFloat, 20);
  add("adamw, float32, 8-bit state", "adamw", S::bits8, W::nearest, at::kFloat, 16);
  add("adamw, float32, 4-bit state", "adamw", S::bits4, W::nearest, at::kFloat, 14);
  add("adamw, bfloat16 stochastic, 8-bit state", "adamw", S::bits8, W::stochastic, at::kBFloat16, 10);
  add("adamw, bfloat16 stochastic, 4-bit state", "adamw", S::bits4, W::stochastic, at::kBFloat16, 8);
  add("adamw, bfloat16 split, 8-bit state", "adamw", S::bits8, W::split, at::kBFloat16, 14);
  add("adamw, bfloat16 kahan, bfloat16 state", "adamw", S::bfloat16, W::kahan, at::kBFloat16, 18);
  add("lion, float32", "lion", S::float32, W::nearest, at::kFloat, 20);
  add("lion, bfloat16 stochastic, 8-bit state", "lion", S::bits8, W::stochastic, at::kBFloat16, 8);
  add("sgd with momentum, float32", "sgd", S::float32, W::nearest, at::kFloat, 20);
  for (long round = -2; round < rounds; ++round) {
    for (Kind& kind : kinds) {
      const auto start = std::chrono::steady_clock::now();
      kind.step();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      if (round >= 0) kind.seconds.push_back(taken.count());
    }
  }
  std::printf("%lld elements, %d threads, median of %ld rounds\n", static_cast<long long>(elements),
              at::get_num_threads(), rounds);
  std::printf("%-42s %9s %9s %12s %8s\n", "", "ms", "fastest", "GB/s", "ratio");
  for (const Kind& kind : kinds)
    std::printf("%-42s %9.2f %9.2f %12.1f %8.2f\n", kind.name.c_str(), kind.median() * 1e3,
                *std::ranges::min_element(kind.seconds) * 1e3,
                kind.bytes * static_cast<double>(elements) / kind.median() / 1e9, kind.median() / kinds[0].median());
}
