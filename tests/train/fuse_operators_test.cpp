// Tests every operator that can be fused, and neighbors that cannot, in one step: `compile` on and off give the same
// bits in every precision, for every kind of operator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "plan/placement/validator.h"
#include "plimsoll/training.h"
#include "run/equality.h"
#include "trace/merged_ops.h"

namespace plimsoll {
namespace {

using torch::Tensor;

// Odd sizes: blocks end in the midst of a vector.
constexpr int64_t kRows = 41, kWidth = 77;

/// Between a half and two and a half: every function is defined, with a slope.
Tensor above_zero(const Tensor& x) {
  return at::sigmoid(x) * 2 + 0.5;
}

struct Operators : torch::nn::Module {
  Operators() {
    mixing = register_parameter("mixing", torch::randn({kWidth, kWidth}) * 0.1);
    row = register_parameter("row", torch::randn({kWidth}));
    all = register_parameter("all", torch::randn({kRows, kWidth}));
    number = register_parameter("number", torch::randn({}));
  }

  Tensor forward(const Tensor& input) {
    // In 16-mixed and bf16-mixed a matmul is in 16 bits and the ops after it are cast to and fro.
    const Tensor x = at::linear(input, mixing), y = all * row;
    std::vector<Tensor> results = {
        x + y,
        at::add(x, y, 2),
        at::sub(x, y),
        at::sub(x, y, 0.5),
        x * number,
        x * 3,
        x / 7,
        x / above_zero(y),
        1.5 / above_zero(x),
        2 - x,
        -at::abs(x) * y,
        at::pow(x, 2),
        at::pow(x, 3),
        at::pow(above_zero(x), 0.5),
        at::pow(above_zero(x), -0.5),
        at::pow(above_zero(x), -1),
        at::pow(above_zero(x), 1.7),
        at::sqrt(above_zero(x)) * y,
        at::rsqrt(above_zero(x)) + y,
        at::reciprocal(above_zero(x)) * x,
        at::clamp_min(x, 0.1) * y,
        at::clamp_max(x, 0.3) + x,
        at::clamp(x, -0.4, 0.4) * 2,
        at::relu(x) + at::relu(y),
        at::threshold(x, 0.2, 0.0) * y,
        at::sigmoid(x) * x,
        at::tanh(x) + y,
        at::silu(x) * y,
        at::gelu(x, "none") + y,
        at::gelu(x, "tanh") * y,
        at::softplus(x) + x,
        at::softplus(x, 2.0, 1.0) * y,
        at::exp(x * 0.1) * y,
        at::log(above_zero(x)) + y,
        at::maximum(x, y) + 1,
        at::where(x > 0, x, y * 0.25),
        x.slice(1, 3, 40) * y.slice(1, 5, 42),
        (x.transpose(0, 1) * 2).transpose(0, 1) + y,
        x.to(at::kFloat) * y.to(at::kBFloat16),
        x.to(at::kHalf) + y.to(at::kHalf),
        (x.to(at::kBFloat16) * 0.1).to(at::kFloat),
    };
    Tensor sum = at::zeros({}, input.options().dtype(at::kFloat));
    for (const Tensor& each : results) sum = sum + each.to(at::kFloat).mean();
    return sum;
  }

  Tensor mixing, row, all, number;
};

class FuseOperators : public ::testing::TestWithParam<std::tuple<Precision, int>> {
 protected:
  struct Run {
    std::vector<double> losses;
    std::vector<Tensor> state;
    Plan plan;
  };

  Run train(Choice compile) const {
    Step step;
    step.model = [] { return std::make_shared<Operators>(); };
    step.inputs = {{"x", {kRows, kWidth}, torch::kFloat32}};
    step.loss = [](torch::nn::Module& model, const StepInputs& inputs) {
      return static_cast<Operators&>(model).forward(inputs["x"]);
    };
    TrainingOptions options;
    std::tie(options.precision, options.threads) = GetParam();
    options.compile = compile;
    Training training(step, options);
    training.start();
    torch::manual_seed(5);
    Run run;
    for (int i = 0; i < 3; ++i)
      run.losses.push_back(training.step({{{"x", torch::randn({kRows, kWidth})}}}, 1e-3).loss);
    for (const auto& [name, tensor] : training.state()) run.state.push_back(tensor.clone());
    run.plan = training.plan();
    return run;
  }
};

TEST_P(FuseOperators, GiveTheSameBits) {
  const Run plain = train(Choice::off);
  ASSERT_EQ(plain.plan.fused_ops, 0);
  for (const Choice compile : {Choice::automatic, Choice::on}) {
    const Run fused = train(compile);
    EXPECT_GT(fused.plan.fused_ops, compile == Choice::on ? 60 : 20);
    EXPECT_EQ(find_fault(fused.plan), "");
    EXPECT_EQ(fused.losses, plain.losses);
    ASSERT_EQ(fused.state.size(), plain.state.size());
    for (size_t i = 0; i < plain.state.size(); ++i)
      EXPECT_TRUE(testing::same_bits(fused.state[i], plain.state[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, FuseOperators,
                         ::testing::Combine(::testing::Values(Precision::fp32_true, Precision::bf16_mixed,
                                                              Precision::fp16_mixed, Precision::bf16_true),
                                            ::testing::Values(1, 2)));

}  // namespace
}  // namespace plimsoll
