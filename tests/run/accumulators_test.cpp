// Gradients of several micro batches, summed in formats of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/bytes.h"
#include "plimsoll/liveness.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "run/batches.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

using testing::Batch;
using testing::RunResult;
using testing::token_batch;
using testing::train;

Step decoder() {
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

// Of gradients that live between two micro batches.
int64_t kept_gradient_bytes(const Plan& plan) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(plan.trace);
  const int32_t between = plan.trace.segment("accumulate")->begin;
  int64_t bytes = 0;
  for (size_t b = 0; b < lifetimes.size(); ++b)
    if (!plan.trace.buffers[b].persistent && lifetimes[b].birth < between && lifetimes[b].death > between)
      bytes += plan.trace.buffers[b].bytes;
  return bytes;
}

TEST(Accumulators, OfFloat32AreAsAutogradSums) {
  const RunResult plain =
      train(decoder(), options_for(Precision::fp32_true, AccumulatorDtype::as_gradients), 3, 4, 16, 64);
  const RunResult ours = train(decoder(), options_for(Precision::fp32_true, AccumulatorDtype::float32), 3, 4, 16, 64);
  EXPECT_EQ(plain.losses, ours.losses);
  for (const auto& [name, tensor] : plain.state) EXPECT_TRUE(torch::equal(tensor, ours.state.at(name))) << name;
}

TEST(Accumulators, TakeTheBytesOfTheirFormatAndTrainAlike) {
  const RunResult plain =
      train(decoder(), options_for(Precision::fp32_true, AccumulatorDtype::as_gradients), 4, 8, 16, 64);
  const auto whole = static_cast<double>(kept_gradient_bytes(plain.plan));
  for (const auto& [dtype, share, error] : {std::tuple{AccumulatorDtype::float32, 1.0, 0.0},
                                            {AccumulatorDtype::bfloat16, 0.5, 2e-3},
                                            {AccumulatorDtype::bits8, 0.2555, 1e-2}}) {
    const RunResult ours = train(decoder(), options_for(Precision::fp32_true, dtype), 4, 8, 16, 64);
    EXPECT_NEAR(static_cast<double>(kept_gradient_bytes(ours.plan)) / whole, share, 0.01);
    EXPECT_EQ(ours.used.arena, ours.plan.arena_bytes);
    EXPECT_LE(ours.used.measured_peak(), ours.plan.peak_bytes);
    for (size_t i = 0; i < plain.losses.size(); ++i)
      EXPECT_NEAR(ours.losses[i], plain.losses[i], error * plain.losses[i]) << i;
    EXPECT_EQ(ours.losses == plain.losses, dtype == AccumulatorDtype::float32);
  }
}

TEST(Accumulators, AreTheSameEveryTimeAndForAnyThreadCount) {
  TrainingOptions options = options_for(Precision::bf16_true, AccumulatorDtype::bits8);
  const RunResult once = train(decoder(), options, 3, 4, 16, 64);
  options.seed = 1;
  EXPECT_NE(train(decoder(), options, 3, 4, 16, 64).losses, once.losses);
  options.seed = 0;
  options.update_in_backward = Choice::on;
  options.max_grad_norm = 0;
  const RunResult in_last = train(decoder(), options, 3, 4, 16, 64);
  options.update_in_backward = Choice::off;
  const RunResult after = train(decoder(), options, 3, 4, 16, 64);
  EXPECT_EQ(in_last.losses, after.losses);
  for (const auto& [name, tensor] : after.state) EXPECT_TRUE(torch::equal(tensor, in_last.state.at(name))) << name;
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
