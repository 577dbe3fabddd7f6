// Tests gradients of several micro batches, summed in separate formats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>

#include "ops/formats.h"
#include "ops/optimizer/ops.h"
#include "plimsoll/bytes.h"
#include "plimsoll/models.h"
#include "plimsoll/trace.h"
#include "plimsoll/training.h"
#include "run/training_runs.h"
#include "thresholds.h"

namespace plimsoll {
namespace {

using testing::Batch;
using testing::RunResult;
using testing::token_batch;
using testing::train;

Step six_layer_decoder() {
  DecoderConfig config;
  config.vocab_size = 64;
  config.hidden_size = 96;
  config.num_layers = 6;
  config.num_heads = 4;
  return decoder_step(config, 2, 16);
}

TrainingOptions options_for(Precision precision, AccumulatorDtype dtype) {
  TrainingOptions options;
  options.threads = 1;
  options.precision = precision;
  options.accumulate = true;
  options.accumulator_dtype = dtype;
  return options;
}

// Returns the bytes of gradients that live between two micro batches.
int64_t kept_gradient_bytes(const Plan& plan) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(plan.trace);
  const int32_t between = plan.trace.segment(SegmentKind::accumulate)->begin;
  int64_t bytes = 0;
  for (size_t b = 0; b < lifetimes.size(); ++b)
    if (!plan.trace.buffers[b].persistent && lifetimes[b].birth < between && lifetimes[b].death > between)
      bytes += plan.trace.buffers[b].bytes;
  return bytes;
}

TEST(Accumulators, OfFloat32AreAsAutogradSums) {
  const RunResult plain =
      train(six_layer_decoder(), options_for(Precision::fp32_true, AccumulatorDtype::as_gradients), 3, 4, 16, 64);
  const RunResult ours =
      train(six_layer_decoder(), options_for(Precision::fp32_true, AccumulatorDtype::float32), 3, 4, 16, 64);
  EXPECT_EQ(plain.losses, ours.losses);
  for (const auto& [name, tensor] : plain.state) EXPECT_TRUE(torch::equal(tensor, ours.state.at(name))) << name;
}

TEST(Accumulators, TakeTheBytesOfTheirFormatAndTrainAlike) {
  const RunResult plain =
      train(six_layer_decoder(), options_for(Precision::fp32_true, AccumulatorDtype::as_gradients), 4, 8, 16, 64);
  const auto whole = static_cast<double>(kept_gradient_bytes(plain.plan));
  for (const auto& [dtype, share, error] : {std::tuple{AccumulatorDtype::float32, 1.0, 0.0},
                                            {AccumulatorDtype::bfloat16, 0.5, 2e-3},
                                            {AccumulatorDtype::bits8, 0.2555, 1e-2}}) {
    const RunResult ours = train(six_layer_decoder(), options_for(Precision::fp32_true, dtype), 4, 8, 16, 64);
    EXPECT_NEAR(static_cast<double>(kept_gradient_bytes(ours.plan)) / whole, share, 0.01);
    EXPECT_EQ(ours.used.arena, ours.plan.arena_bytes);
    EXPECT_LE(ours.used.measured_peak(), ours.plan.peak_bytes);
    EXPECT_EQ(ours.losses == plain.losses, dtype == AccumulatorDtype::float32);
    double difference = 0;
    for (size_t i = 0; i < plain.losses.size(); ++i)
      difference = std::max(difference, std::abs(ours.losses[i] / plain.losses[i] - 1));
    if (dtype != AccumulatorDtype::float32)
      expect_below(fmt::format("relative difference of losses, {}", name_of(dtype)), difference, error);
  }
}

TEST(Accumulators, AreTheSameEveryTimeAndForAnyThreadCount) {
  TrainingOptions options = options_for(Precision::bf16_true, AccumulatorDtype::bits8);
  const RunResult once = train(six_layer_decoder(), options, 3, 4, 16, 64);
  const RunResult again = train(six_layer_decoder(), options, 3, 4, 16, 64);
  EXPECT_EQ(once.losses, again.losses);
  for (const auto& [name, tensor] : once.state) EXPECT_TRUE(torch::equal(tensor, again.state.at(name))) << name;
  options.seed = 1;
  EXPECT_NE(train(six_layer_decoder(), options, 3, 4, 16, 64).losses, once.losses);

  // Matrix products may differ with the thread count; sums of gradients do not.
  const torch::Tensor gradient = torch::randn({1 << 18});
  std::vector<torch::Tensor> sums;
  for (int threads : {1, 2}) {
    at::set_num_threads(threads);
    torch::manual_seed(5);
    const ops::Packed sum{torch::zeros({1 << 18}, torch::kByte),
                          torch::zeros({ops::scales_of(ops::Format::bits8, 1 << 18)}, torch::kByte)};
    ops::accumulate_(sum, gradient, true);
    ops::accumulate_(sum, gradient, false);
    sums.push_back(sum.values);
  }
  EXPECT_TRUE(torch::equal(sums[0], sums[1]));
}

// A parameter whose memory order is not the order of its indices.
TEST(Accumulators, OfTransposedParametersBelongToTheirElements) {
  Step step;
  step.model = [] {
    struct Net : torch::nn::Module {
      torch::Tensor weight = register_parameter("weight", torch::randn({96, 128}).t());
    };
    return std::static_pointer_cast<torch::nn::Module>(std::make_shared<Net>());
  };
  step.inputs = {{"x", {4, 128}, torch::kFloat}};
  step.loss = [](torch::nn::Module& model, const StepInputs& in) {
    return in["x"].matmul(model.named_parameters()["weight"]).square().mean();
  };
  std::vector<torch::Tensor> trained;
  torch::manual_seed(test_seed(6));
  const torch::Tensor x = torch::randn({4, 128}) * torch::arange(1, 129);  // gradients unlike each other
  for (AccumulatorDtype dtype : {AccumulatorDtype::as_gradients, AccumulatorDtype::bits8}) {
    TrainingOptions options = options_for(Precision::fp32_true, dtype);
    options.optimizer.name = "sgd";
    options.optimizer.momentum = 0;
    options.optimizer.weight_decay = 0;
    options.max_grad_norm = 0;
    Training training(step, options);
    training.start();
    const torch::Tensor before = training.state()[0].second.clone();
    training.step({{{"x", x}}, {{"x", x}}}, 1e-4);
    trained.push_back(training.state()[0].second - before);
  }
  expect_below("relative error of the update", ((trained[0] - trained[1]).norm() / trained[0].norm()).item<double>(),
               0.1);
}

TEST(Accumulators, ANonFiniteMicroBatchSkipsTheStep) {
  Step step;
  step.model = [] { return torch::nn::Sequential(torch::nn::Linear(64, 128), torch::nn::Linear(128, 64)).ptr(); };
  step.inputs = {{"x", {4, 64}, torch::kFloat}};
  step.loss = [](torch::nn::Module& model, const StepInputs& in) {
    return dynamic_cast<torch::nn::SequentialImpl&>(model).forward(in["x"]).square().mean();
  };
  for (AccumulatorDtype dtype : {AccumulatorDtype::float32, AccumulatorDtype::bfloat16, AccumulatorDtype::bits8}) {
    Training training(step, options_for(Precision::fp32_true, dtype));
    training.start();
    const Batch good{{"x", torch::randn({4, 64})}}, bad{{"x", torch::full({4, 64}, INFINITY)}};
    training.step({good, good}, 1e-2);
    std::map<std::string, torch::Tensor> before;
    for (const auto& [name, tensor] : training.state()) before[name] = tensor.clone();
    EXPECT_TRUE(training.step({good, bad, good}, 1e-2).skipped);
    for (const auto& [name, tensor] : training.state()) EXPECT_TRUE(torch::equal(tensor, before[name])) << name;
    EXPECT_FALSE(training.step({good, good}, 1e-2).skipped);
  }
}

}  // namespace
}  // namespace plimsoll
