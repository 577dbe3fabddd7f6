// Tests updates in backward: the same numbers, fewer gradients at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>

#include <cmath>

#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/trace.h"
#include "plimsoll/training.h"
#include "refusals.h"
#include "run/equality.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

using testing::Batch;
using ::testing::HasSubstr;
using testing::RunResult;
using testing::token_batch;
using testing::train;

Step eight_layer_decoder(double dropout = 0) {
  DecoderConfig config;
  config.vocab_size = 64;
  config.hidden_size = 64;
  config.num_layers = 8;
  config.num_heads = 4;
  config.dropout = dropout;
  return decoder_step(config, 2, 16);
}

TrainingOptions options_for(Choice choice, double max_grad_norm) {
  TrainingOptions options;
  options.threads = 1;
  options.update_in_backward = choice;
  options.max_grad_norm = max_grad_norm;
  return options;
}

int64_t gradient_bytes(const Plan& plan) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(plan.trace);
  int64_t most = 0;
  for (int32_t op = 0; op < static_cast<int32_t>(plan.trace.ops.size()); ++op) {
    int64_t live = 0;
    for (size_t b = 0; b < lifetimes.size(); ++b)
      if (plan.trace.buffers[b].role == Role::gradient && lifetimes[b].live_at(op)) live += plan.trace.buffers[b].bytes;
    most = std::max(most, live);
  }
  return most;
}

using InBackwardCase = std::tuple<Precision, double, bool>;  // precision, max_grad_norm, recompute
class InBackward : public ::testing::TestWithParam<InBackwardCase> {};

TEST_P(InBackward, SameLossesAndStateWithFewerGradients) {
  const auto& [precision, clip, recompute] = GetParam();
  std::vector<RunResult> results;
  for (Choice choice : {Choice::off, Choice::on}) {
    TrainingOptions options = options_for(choice, clip);
    options.precision = precision;
    options.gradient_checkpointing = recompute ? Choice::on : Choice::off;
    results.push_back(train(eight_layer_decoder(0.1), options, 1, 6, 16, 64));
    const RunResult& result = results.back();
    EXPECT_EQ(result.plan.update_in_backward, choice == Choice::on);
    EXPECT_EQ(result.used.arena, result.plan.arena_bytes);
    EXPECT_LE(result.used.measured_peak(), result.plan.peak_bytes);
    // A first run for the norm if updates have to wait for it.
    EXPECT_EQ(result.plan.trace.segment(SegmentKind::norms) != nullptr,
              choice == Choice::on && (clip > 0 || precision == Precision::fp16_mixed));
  }
  EXPECT_EQ(results[0].losses, results[1].losses);
  EXPECT_EQ(results[0].norms, results[1].norms);
  ASSERT_EQ(results[0].state.size(), results[1].state.size());
  for (const auto& [name, tensor] : results[0].state)
    EXPECT_TRUE(torch::equal(tensor, results[1].state.at(name))) << name;
  EXPECT_LT(3 * gradient_bytes(results[1].plan), gradient_bytes(results[0].plan));
}

INSTANTIATE_TEST_SUITE_P(Modes, InBackward,
                         ::testing::Combine(::testing::Values(Precision::fp32_true, Precision::bf16_mixed,
                                                              Precision::fp16_mixed, Precision::bf16_true),
                                            ::testing::Values(0.0, 0.5), ::testing::Bool()));

TEST(UpdateInBackwardBudget, AutomaticUsesItWhereNothingElseFits) {
  TrainingOptions options = options_for(Choice::off, 0);
  options.budget.device = 1;
  const int64_t without = Training(eight_layer_decoder(), options).minimum_budget_bytes();
  options.update_in_backward = Choice::automatic;
  const int64_t with = Training(eight_layer_decoder(), options).minimum_budget_bytes();
  EXPECT_LT(with, without - MiB);
  options.budget.device = without + MiB;
  const int64_t above = Training(eight_layer_decoder(), options).plan().peak_bytes;
  EXPECT_LE(above, without + MiB);
  options.budget.device = with;
  const RunResult least = train(eight_layer_decoder(), options, 1, 3, 16, 64);
  EXPECT_TRUE(least.plan.update_in_backward);
  EXPECT_LE(least.used.measured_peak(), with);
  options.budget.device.reset();
  const RunResult free = train(eight_layer_decoder(), options, 1, 3, 16, 64);
  EXPECT_FALSE(free.plan.update_in_backward);
  EXPECT_EQ(least.losses, free.losses);
  options.budget.device = with - 1;
  EXPECT_FALSE(Training(eight_layer_decoder(), options).plan().fits);
}

// Steps of several micro batches update in the last one; those of one, and a smaller last one, do as well.
TEST(UpdateInBackwardAccumulation, SameLossesAndState) {
  for (Precision precision : {Precision::fp32_true, Precision::bf16_true})
    for (int64_t last : {0, 1}) {
      std::map<std::string, torch::Tensor> states[2];
      std::vector<double> losses[2];
      for (Choice choice : {Choice::off, Choice::on}) {
        TrainingOptions options = options_for(choice, 0);
        options.precision = precision;
        options.accumulate = true;
        options.last_micro_batch = last;
        torch::manual_seed(3);
        Training training(eight_layer_decoder(0.1), options);
        training.start();
        EXPECT_EQ(training.plan().update_in_backward, choice == Choice::on);
        for (int count : {4, 1, 2, 4}) {
          std::vector<Batch> batches;
          for (int i = 0; i < count; ++i)
            batches.push_back(token_batch(last > 0 && count == 4 && i == 3 ? last : 2, 16, 64));
          losses[choice == Choice::on].push_back(training.step(batches, 1e-3).loss);
        }
        for (const auto& [name, tensor] : training.state()) states[choice == Choice::on][name] = tensor.clone();
        EXPECT_EQ(training.used().arena, training.plan().arena_bytes);
      }
      EXPECT_EQ(losses[0], losses[1]);
      for (const auto& [name, tensor] : states[0]) EXPECT_TRUE(torch::equal(tensor, states[1].at(name))) << name;
    }
}

// A parameter used in two places, and gradients that are a view of each other's buffer.
TEST(UpdateInBackwardEquality, SharedParametersAreAsInEager) {
  for (double clip : {0.0, 1.0}) {
    Step step;
    step.model = [] {
      struct Net : torch::nn::Module {
        Net() {
          fc = register_module("fc", torch::nn::Linear(12, 12));
          gain = register_parameter("gain", torch::ones({8, 12}));
          offset = register_parameter("offset", torch::zeros({8, 12}));
        }
        torch::nn::Linear fc{nullptr};
        torch::Tensor gain, offset;
      };
      return std::static_pointer_cast<torch::nn::Module>(std::make_shared<Net>());
    };
    step.inputs = {{"x", {8, 12}, torch::kFloat}};
    step.loss = [](torch::nn::Module& model, const StepInputs& in) {
      const auto parameters = model.named_parameters();
      const auto fc = [&](const torch::Tensor& x) {
        return torch::nn::functional::linear(x, parameters["fc.weight"], parameters["fc.bias"]);
      };
      return (fc(torch::gelu(fc(in["x"]) * parameters["gain"] + parameters["offset"])) + parameters["offset"])
          .square()
          .mean();
    };
    TrainingOptions options = options_for(Choice::on, clip);
    testing::expect_equal(
        step, options,
        [] {
          return Batch{{"x", torch::randn({8, 12})}};
        },
        4, 1);
  }
}

TEST(UpdateInBackward, ALossThatIsNotFiniteChangesNothing) {
  for (double clip : {0.0, 1.0}) {
    Step step;
    step.model = [] { return torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4)).ptr(); };
    step.inputs = {{"x", {2, 4}, torch::kFloat}};
    step.loss = [](torch::nn::Module& model, const StepInputs& in) {
      return dynamic_cast<torch::nn::SequentialImpl&>(model).forward(in["x"]).square().mean();
    };
    Training training(step, options_for(Choice::on, clip));
    training.start();
    training.step({{{"x", torch::randn({2, 4})}}}, 1e-2);
    std::map<std::string, torch::Tensor> before;
    for (const auto& [name, tensor] : training.state()) before[name] = tensor.clone();
    const StepResult result = training.step({{{"x", torch::full({2, 4}, NAN)}}}, 1e-2);
    EXPECT_TRUE(result.skipped);
    EXPECT_EQ(training.steps_skipped(), 1);
    for (const auto& [name, tensor] : training.state()) EXPECT_TRUE(torch::equal(tensor, before[name])) << name;
    EXPECT_FALSE(training.step({{{"x", torch::randn({2, 4})}}}, 1e-2).skipped);
  }
}

// A finite loss with one gradient that is not: the root of zero. Backward comes to `second` before it.
TEST(UpdateInBackward, AGradientThatIsNotFiniteStopsWhatComesAfterIt) {
  Step step;
  step.model = [] {
    struct Net : torch::nn::Module {
      torch::Tensor first = register_parameter("first", torch::ones({4}));
      torch::Tensor second = register_parameter("second", torch::ones({4}));
    };
    return std::static_pointer_cast<torch::nn::Module>(std::make_shared<Net>());
  };
  step.inputs = {{"x", {4}, torch::kFloat}};
  step.loss = [](torch::nn::Module& model, const StepInputs& in) {
    const auto parameters = model.named_parameters();
    const torch::Tensor root = (parameters["first"] * in["x"]).sum().sqrt();
    return root + parameters["second"].square().sum();
  };
  for (double clip : {0.0, 1.0}) {
    Training training(step, options_for(Choice::on, clip));
    training.start();
    EXPECT_FALSE(training.step({{{"x", torch::ones({4})}}}, 1e-2).skipped);
    std::map<std::string, torch::Tensor> before;
    for (const auto& [name, tensor] : training.state()) before[name] = tensor.clone();
    const StepResult result = training.step({{{"x", torch::zeros({4})}}}, 1e-2);
    EXPECT_TRUE(result.skipped);
    EXPECT_TRUE(std::isfinite(result.loss));
    for (const auto& [name, tensor] : training.state()) {
      const bool may_change = clip == 0 && name.ends_with("second");
      EXPECT_EQ(torch::equal(tensor, before[name]), !may_change) << name << ", " << clip;
    }
  }
}

TEST(UpdateInBackward, WhatCannotBeIsRefused) {
  TrainingOptions options = options_for(Choice::on, 1.0);
  options.accumulate = true;
  EXPECT_THAT(refusal_of([&] { Training(eight_layer_decoder(), options); }),
              HasSubstr("gradient_accumulation_steps: 1"));
  options.update_in_backward = Choice::automatic;
  EXPECT_FALSE(Training(eight_layer_decoder(), options).plan().update_in_backward);
  options = options_for(Choice::on, 0);
  options.accumulate = true;
  options.precision = Precision::fp16_mixed;
  EXPECT_THAT(refusal_of([&] { Training(eight_layer_decoder(), options); }), HasSubstr("16-mixed"));

  Step step;
  step.model = [] { return torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4)).ptr(); };
  step.inputs = {{"x", {8, 4}, torch::kFloat}};
  step.loss = [](torch::nn::Module& model, const StepInputs& in) {
    return dynamic_cast<torch::nn::SequentialImpl&>(model).forward(in["x"]).square().mean();
  };
  EXPECT_THAT(refusal_of([&] { Training(step, options_for(Choice::on, 1.0)); }),
              ::testing::AllOf(HasSubstr("'1."), HasSubstr("max_grad_norm: 0")));
  EXPECT_TRUE(Training(step, options_for(Choice::on, 0)).plan().update_in_backward);
}

}  // namespace
}  // namespace plimsoll
