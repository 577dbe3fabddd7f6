// Tests whole steps of a small model against libtorch's clipping and optimizers in double precision (reference.h). The
// equality tests compare planned training with the project's own update, and cannot detect an error in it.
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <limits>

#include "plimsoll/options.h"
#include "plimsoll/training.h"
#include "run/reference.h"

namespace plimsoll {
namespace {

using testing::Batch;
using testing::ReferenceTraining;
using torch::Tensor;

constexpr int64_t kSamples = 6, kWords = 13, kWidth = 8, kHidden = 12, kOutputs = 3;
constexpr double kNoClipping = 0, kPeak = 1e-2;
// Relative to a parameter's largest element. Rounding to float32 takes 6e-8; a step of these models adds as much again.
constexpr double kTolerance = 1e-6;

/// Parameters with decay (an embedding, two matrices) and without (biases, a norm).
struct Net : torch::nn::Module {
  torch::nn::Embedding embedding = register_module("embedding", torch::nn::Embedding(kWords, kWidth));
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kWidth, kHidden));
  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kHidden})));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(kHidden, kOutputs));
};

/// `weight` scales the loss of each sample, and so the gradients of a step.
Step small_step() {
  Step step;
  step.model = [] { return std::make_shared<Net>(); };
  step.inputs = {{"word", {kSamples}, torch::kInt64},
                 {"y", {kSamples, kOutputs}, torch::kFloat32},
                 {"weight", {kSamples}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& module, const StepInputs& in) {
    auto& net = static_cast<Net&>(module);
    const Tensor hidden = torch::tanh(net.norm(net.first(net.embedding(in["word"]))));
    return ((net.last(hidden) - in["y"]).square().mean(1) * in["weight"]).mean();
  };
  return step;
}

Batch batch_of(int64_t samples, double weight) {
  return {{"word", torch::randint(kWords, {samples}, torch::kLong)},
          {"y", torch::randn({samples, kOutputs})},
          {"weight", torch::full({samples}, weight, torch::kFloat32)}};
}

OptimizerConfig optimizer(const std::string& name, double weight_decay = 0.3) {
  OptimizerConfig config;
  config.name = name;
  config.learning_rate = kPeak;
  config.weight_decay = weight_decay;
  config.eps = 1e-6;  // float32 gradients of nearly 0 have few correct digits, and AdamW divides them by their size
  return config;
}

struct Run {
  OptimizerConfig optimizer;
  double max_grad_norm = kNoClipping;
  std::vector<int64_t> micro_batches = {kSamples};   ///< samples of each
  std::vector<double> weights = {1, 1, 1, 1, 1, 1};  ///< factors of the losses, by step
  Choice update_in_backward = Choice::automatic;
};

/// The least and the largest norm of the gradients of a step.
struct Norms {
  double least = std::numeric_limits<double>::infinity(), largest = 0;
};

/// Trains both with a warm-up and a cosine schedule, and compares losses, norms and every parameter after each step.
Norms expect_as_reference(const Run& run) {
  torch::manual_seed(31);
  TrainingOptions options;
  options.optimizer = run.optimizer;
  options.max_grad_norm = run.max_grad_norm;
  options.accumulate = run.micro_batches.size() > 1;
  if (run.micro_batches.back() != run.micro_batches.front()) options.last_micro_batch = run.micro_batches.back();
  options.update_in_backward = run.update_in_backward;
  options.gradient_checkpointing = Choice::off;  // nothing to search for
  options.threads = 1;
  Training training(small_step(), options);
  training.start();
  ReferenceTraining reference(small_step(), run.optimizer, run.max_grad_norm);
  reference.copy_from(training);

  const auto steps = static_cast<int64_t>(run.weights.size());
  const SchedulerConfig schedule{.name = "cosine", .warmup_steps = 2, .min_lr_ratio = 0.1};
  Norms norms;
  for (int64_t i = 1; i <= steps; ++i) {
    std::vector<Batch> batches;
    for (int64_t samples : run.micro_batches) batches.push_back(batch_of(samples, run.weights[i - 1]));
    const StepResult got = training.step(batches, learning_rate_at(schedule, kPeak, i, steps));
    const auto want = reference.step(batches, testing::reference_cosine_rate(kPeak, 0.1, 2, i, steps));
    EXPECT_NEAR(got.loss, want.loss, kTolerance * want.loss) << "step " << i;
    EXPECT_NEAR(got.gradient_norm, want.gradient_norm, kTolerance * want.gradient_norm) << "step " << i;
    EXPECT_FALSE(got.skipped);
    norms.least = std::min(norms.least, want.gradient_norm);
    norms.largest = std::max(norms.largest, want.gradient_norm);
    std::map<std::string, Tensor> ours;
    for (const auto& [name, tensor] : training.state()) ours[name] = tensor;
    for (const auto& [name, exact] : reference.parameters()) {
      const double error = (ours.at(name).to(torch::kDouble) - exact).abs().max().item<double>();
      EXPECT_LE(error, kTolerance * exact.abs().max().item<double>()) << name << " after step " << i;
    }
  }
  return norms;
}

class IndependentUpdate : public ::testing::TestWithParam<const char*> {};

TEST_P(IndependentUpdate, WithoutClipping) {
  expect_as_reference({optimizer(GetParam())});
}

TEST_P(IndependentUpdate, GradientsBelowTheLargestNormStayAsTheyAre) {
  const Norms norms = expect_as_reference({optimizer(GetParam()), 20.0});
  EXPECT_LT(norms.largest, 20.0);
}

TEST_P(IndependentUpdate, GradientsAboveTheLargestNormAreClipped) {
  const Norms norms = expect_as_reference({optimizer(GetParam()), 0.05});
  EXPECT_GT(norms.least, 0.05);
}

TEST_P(IndependentUpdate, SomeStepsAreClippedAndOthersNot) {
  const Norms norms = expect_as_reference(
      {.optimizer = optimizer(GetParam()), .max_grad_norm = 1, .weights = {10, .1, .1, 10, .1, 10}});
  EXPECT_LT(norms.least, 1);
  EXPECT_GT(norms.largest, 1);
}

TEST_P(IndependentUpdate, WithoutWeightDecay) {
  expect_as_reference({optimizer(GetParam(), 0), 0.5});
}

TEST_P(IndependentUpdate, MicroBatchesAreOneBatch) {
  expect_as_reference({optimizer(GetParam()), 20.0, {kSamples, kSamples, kSamples}});
}

TEST_P(IndependentUpdate, ASmallerLastMicroBatchCountsByItsSamples) {
  expect_as_reference({optimizer(GetParam()), 0.05, {kSamples, kSamples, 2}});
}

TEST_P(IndependentUpdate, InBackward) {
  for (const double max_grad_norm : {kNoClipping, 1.0})
    expect_as_reference({.optimizer = optimizer(GetParam()),
                         .max_grad_norm = max_grad_norm,
                         .weights = {10, .1, .1, 10, .1, 10},
                         .update_in_backward = Choice::on});
}

INSTANTIATE_TEST_SUITE_P(Optimizers, IndependentUpdate, ::testing::Values("adamw", "sgd", "lion"));

TEST(IndependentSchedule, CosineWithAWarmUp) {
  for (const int64_t warmup : {1, 2, 7})
    for (const double least : {0.0, 0.1, 1.0}) {
      const SchedulerConfig schedule{.name = "cosine", .warmup_steps = warmup, .min_lr_ratio = least};
      for (int64_t step = 1; step <= 20; ++step)
        EXPECT_NEAR(learning_rate_at(schedule, kPeak, step, 20),
                    testing::reference_cosine_rate(kPeak, least, warmup, step, 20), 1e-15)
            << "warm-up " << warmup << ", least " << least << ", step " << step;
    }
}

}  // namespace
}  // namespace plimsoll
