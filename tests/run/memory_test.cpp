// Tests that planned bytes are the used bytes.
#include "run/training_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <random>

#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/trace.h"
#include "plimsoll/training.h"
#include "refusals.h"
#include "rounds.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

using testing::Batch;
using testing::RunResult;
using testing::token_batch;
using testing::train;

Step four_layer_decoder() {
  DecoderConfig config;
  config.vocab_size = 512;
  config.hidden_size = 96;
  config.num_layers = 4;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  return decoder_step(config, 2, 64);
}

struct MemoryCase {
  Precision precision;
  int micro;
};

class Modes : public ::testing::TestWithParam<MemoryCase> {};

int64_t largest_scratch(const Plan& plan) {
  int64_t bytes = kArenaAlignment;
  for (const Op& op : plan.trace.ops) bytes = std::max(bytes, op.workspace_bytes);
  return bytes;
}

// Both promises together, for every precision and accumulation. The arena is used to the byte, and kernels allocate
// almost nothing outside of it. Recomputation changes bytes, not losses.
TEST_P(Modes, PlannedIsUsedAndCheckpointingKeepsTheLosses) {
  TrainingOptions options;
  options.precision = GetParam().precision;
  options.accumulate = GetParam().micro > 1;
  std::vector<RunResult> results;
  for (Choice checkpointing : {Choice::off, Choice::on}) {
    options.gradient_checkpointing = checkpointing;
    const RunResult result = train(four_layer_decoder(), options, GetParam().micro, 20);
    EXPECT_EQ(result.used.arena, result.plan.arena_bytes);
    // Written to up to the last byte, except for scratch that a rule provides for a kernel's worst case.
    EXPECT_LE(result.used.touched, result.plan.arena_bytes);
    EXPECT_GE(result.used.touched, result.plan.arena_bytes - 2 * largest_scratch(result.plan));
    EXPECT_NEAR(static_cast<double>(result.used.measured_peak()), static_cast<double>(result.plan.peak_bytes),
                0.005 * static_cast<double>(result.plan.peak_bytes));
    EXPECT_LE(result.plan.arena_waste(), 0.02);
    EXPECT_EQ(result.plan.breakdown.total(), result.plan.peak_bytes);
    results.push_back(result);
  }
  EXPECT_EQ(results[0].losses, results[1].losses);
  EXPECT_LT(results[1].plan.peak_bytes, results[0].plan.peak_bytes);
  EXPECT_TRUE(results[1].plan.checkpointed);
}

std::vector<MemoryCase> memory_cases() {
  std::vector<MemoryCase> cases;
  for (auto precision : {Precision::fp32_true, Precision::bf16_mixed, Precision::fp16_mixed, Precision::bf16_true})
    for (int micro : {1, 4}) cases.push_back({precision, micro});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(PrecisionAccumulation, Modes, ::testing::ValuesIn(memory_cases()));

// The minimum budget, scratch included, that start() would report.
int64_t minimum_of(const Step& step, TrainingOptions options) {
  options.budget.device.reset();
  Training training(step, options);
  training.start();
  return training.minimum_budget_bytes();
}

TEST(Budget, TheMinimumTrainsAndAByteLessDoesNotFit) {
  TrainingOptions options;
  const int64_t minimum = minimum_of(four_layer_decoder(), options);
  options.budget.device = minimum - 1;
  Training too_small(four_layer_decoder(), options);
  EXPECT_THROW(too_small.start(), UserError);
  EXPECT_FALSE(too_small.plan().fits);

  options.budget.device = minimum;
  Training training(four_layer_decoder(), options);
  ASSERT_TRUE(training.plan().fits);
  training.start();
  const Batch batch = token_batch(2, 64, 512);
  const double first = training.step({batch}, 1e-2).loss;
  double last = first;
  for (int i = 0; i < 5; ++i) last = training.step({batch}, 1e-2).loss;
  EXPECT_LT(last, first);
  EXPECT_EQ(training.plan().peak_bytes, minimum);
  EXPECT_EQ(training.used().arena, training.plan().arena_bytes);
  EXPECT_LE(training.used().measured_peak(), minimum);
}

// Any budget is kept and used well, less of it never costs less, and the losses are the same.
TEST(Budget, EveryBudgetGivesTheSameLosses) {
  TrainingOptions options;
  options.precision = Precision::bf16_mixed;
  options.gradient_checkpointing = Choice::off;
  const RunResult whole = train(four_layer_decoder(), options, 1, 4);
  options.gradient_checkpointing = Choice::automatic;
  options.budget.device = 1;
  const int64_t least = minimum_of(four_layer_decoder(), options);
  ASSERT_LT(least, whole.plan.peak_bytes);
  double seconds = 0, recomputed = 0;
  for (int i = 0; i <= 12; ++i) {
    // The measured scratch of the first step is added to the plan before it.
    options.budget.device = whole.plan.peak_bytes - (whole.plan.peak_bytes - least) * i / 12;
    SCOPED_TRACE(*options.budget.device);
    const RunResult result = train(four_layer_decoder(), options, 1, 4);
    EXPECT_LE(result.used.measured_peak(), *options.budget.device);
    EXPECT_LE(result.plan.peak_bytes, *options.budget.device);
    EXPECT_EQ(result.losses, whole.losses);
    // The whole micro batch, not the recomputed part: under the smallest budgets fusing is given up.
    EXPECT_GE(result.plan.time.micro, seconds);
    seconds = result.plan.time.micro;
    recomputed = std::max(recomputed, result.plan.time.recompute);
  }
  EXPECT_GT(recomputed, 0);
}

// Operators without a rule for their scratch, other precisions, dropout, evaluation: training with the minimum budget
// keeps it to the byte.
TEST(Budget, RandomDecodersTrainInTheirMinimum) {
  std::mt19937 random(12);
  const auto draw = [&](auto... options) {
    const auto list = {options...};
    return *(list.begin() + random() % list.size());
  };
  for (int i = 0; i < testing::rounds(40); ++i) {
    DecoderConfig config;
    config.vocab_size = draw(64, 257);
    config.head_dim = draw(8, 16);
    config.num_heads = draw(1, 2, 4);
    config.num_kv_heads = draw(0, 1);
    config.hidden_size = draw(16, 64);
    config.num_layers = draw(1, 2, 4);
    config.norm = draw("rmsnorm", "layernorm");
    config.positions = draw("rope", "learned");
    config.activation = draw("swiglu", "gelu");
    config.tie_embeddings = draw(true, false);
    config.mlp_bias = draw(true, false);
    config.dropout = draw(0.0, 0.1);
    TrainingOptions options;
    options.precision = draw(Precision::fp32_true, Precision::bf16_mixed, Precision::fp16_mixed, Precision::bf16_true);
    options.optimizer.name = draw("adamw", "sgd");
    options.optimizer.momentum = draw(0.0, 0.9);
    options.accumulate = options.evaluate = true;
    options.threads = draw(1, 2);
    const int64_t batch = draw(1, 3), time = draw(7, 64, 130);
    const Step step = decoder_step(config, batch, time);
    SCOPED_TRACE(::testing::Message() << "model " << i << " " << name_of(options.precision) << " " << config.norm << " "
                                      << config.activation << " threads " << options.threads);
    options.budget.device = minimum_of(step, options);
    Training training(step, options);
    ASSERT_TRUE(training.plan().fits);
    training.start();
    for (int s = 0; s < 2; ++s)
      training.step({token_batch(batch, time, config.vocab_size), token_batch(batch, time, config.vocab_size)}, 1e-3);
    training.evaluate(token_batch(batch, time, config.vocab_size));
    EXPECT_LE(training.used().measured_peak(), *options.budget.device);
  }
}

TEST(Training, ANonFiniteGradientSkipsTheStep) {
  struct Scale : torch::nn::Module {
    torch::Tensor weight = register_parameter("weight", torch::ones({4}));
  };
  Step step;
  step.model = [] { return std::make_shared<Scale>(); };
  step.inputs = {{"x", {4}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    return (static_cast<Scale&>(m).weight * in["x"]).sum();
  };
  Training training(step, {});
  training.start();
  const Batch good{{"x", torch::ones({4})}};
  const Batch bad{{"x", torch::full({4}, std::numeric_limits<float>::infinity())}};
  training.step({good}, 0.1);
  std::vector<torch::Tensor> before;
  for (const auto& [name, tensor] : training.state()) before.push_back(tensor.clone());
  EXPECT_TRUE(training.step({bad}, 0.1).skipped);
  EXPECT_EQ(training.steps_skipped(), 1);
  const auto after = training.state();
  for (size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(torch::equal(after[i].second, before[i])) << after[i].first;
  EXPECT_FALSE(training.step({good}, 0.1).skipped);
}

TEST(Training, LossScalingHalvesAfterAnOverflow) {
  TrainingOptions options;
  options.precision = Precision::fp16_mixed;
  struct Net : torch::nn::Module {
    torch::nn::Linear layer = register_module("layer", torch::nn::Linear(8, 8));
  };
  Step step;
  step.model = [] { return std::make_shared<Net>(); };
  step.inputs = {{"x", {4, 8}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& m, const StepInputs& in) {
    return static_cast<Net&>(m).layer->forward(in["x"]).to(torch::kFloat32).square().sum() * 100;
  };
  Training training(step, options);
  training.start();
  const double scale = training.loss_scale();
  EXPECT_TRUE(training.step({{{"x", torch::full({4, 8}, 100.0)}}}, 1e-3).skipped);
  EXPECT_EQ(training.loss_scale(), scale / 2);
}

TEST(Training, WrongInputsAreNamed) {
  Training training(four_layer_decoder(), {});
  training.start();
  Batch batch = token_batch(2, 64, 512);
  batch["tokens"] = torch::zeros({2, 63}, torch::kLong);
  EXPECT_THAT(refusal_of([&] { training.step({batch}, 1e-3); }),
              ::testing::AllOf(::testing::HasSubstr("'tokens'"), ::testing::HasSubstr("[2, 63]"),
                               ::testing::HasSubstr("[2, 64]")));
  batch.erase("tokens");
  EXPECT_THROW(training.step({batch}, 1e-3), UserError);
  batch = token_batch(2, 64, 512);
  batch["tokens"].fill_(512);
  EXPECT_THROW(training.step({batch}, 1e-3), UserError);  // out of the vocabulary: the kernel refuses
}

// Once the scratch of kernels is known, they allocate nothing outside the arena except for worker threads.
TEST(Budget, NothingIsAllocatedAfterTheSecondStep) {
  Training training(four_layer_decoder(), {.threads = 1});
  training.start();
  std::vector<int64_t> allocations;
  for (int i = 0; i < 5; ++i) {
    training.step({token_batch(2, 64, 512)}, 1e-3);
    allocations.push_back(training.used().out_of_arena_allocations);
  }
  EXPECT_EQ(allocations[4], allocations[1]);
}

// In mixed precision a gradient that is not summed stays in the 16 bits of its matmul.
TEST(Budget, GradientsOfMixedPrecisionTakeTwoBytes) {
  const Training training(four_layer_decoder(), {.precision = Precision::bf16_mixed});
  const Trace& trace = training.plan().trace;
  std::map<std::string, int64_t> bytes;
  for (const Op& op : trace.ops)
    for_each_view(op, [&](const View& view, bool) {
      const Buffer& buffer = trace.buffers[view.buffer];
      if (buffer.role == Role::gradient) bytes[buffer.label] = buffer.bytes;
    });
  EXPECT_EQ(bytes.at("gradient of layers.0.mlp.down.weight"),
            2 * Trace::find(trace.state, "layers.0.mlp.down.weight")->view.elements());
}

MemoryUse used(int64_t arena, int64_t workspace) {
  MemoryUse use;
  use.arena = arena;
  use.workspace = workspace;
  use.peak = arena + workspace;
  return use;
}

const Breakdown kPlanned = {.parameters = 100,
                            .gradients = 90,
                            .optimizer_state = 200,
                            .activations = 400,
                            .inputs = 8,
                            .workspace = 50,
                            .context = 0,
                            .fragmentation = 20};

TEST(MeasuredBreakdown, IsThePlanWhereThePlanWasUsedToTheLastByte) {
  const Breakdown measured = measured_breakdown(kPlanned, used(kPlanned.total(), 0));
  EXPECT_EQ(measured.activations, 400);
  EXPECT_EQ(measured.workspace, 50);
  EXPECT_EQ(measured.fragmentation, 20);
  EXPECT_EQ(measured.total(), kPlanned.total());
}

TEST(MeasuredBreakdown, CountsScratchFromTheHeapAsWorkspace) {
  const Breakdown measured = measured_breakdown(kPlanned, used(kPlanned.total(), 7));
  EXPECT_EQ(measured.workspace, 57);
  EXPECT_EQ(measured.total(), kPlanned.total() + 7);
}

TEST(MeasuredBreakdown, TakesUntouchedBytesOffTheGapsFirstThenOffTheScratch) {
  const Breakdown measured = measured_breakdown(kPlanned, used(kPlanned.total() - 30, 0));
  EXPECT_EQ(measured.fragmentation, 0);
  EXPECT_EQ(measured.workspace, 40);
  EXPECT_EQ(measured.activations, 400);
  EXPECT_EQ(measured.parameters, 100);
}

TEST(MeasuredBreakdown, AddsUpAndHasNoNegativePartWhateverWasUsed) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const auto any = [&] { return static_cast<int64_t>(random() % 1000); };
    const Breakdown planned = {any(), any(), any(), any(), any(), any(), any(), any()};
    const MemoryUse use = used(any() * 8, any());
    const Breakdown measured = measured_breakdown(planned, use);
    EXPECT_EQ(measured.total(), use.measured_peak());
    for (int64_t part : {measured.parameters, measured.gradients, measured.optimizer_state, measured.activations,
                         measured.inputs, measured.workspace, measured.context, measured.fragmentation})
      EXPECT_GE(part, 0);
  }
}

}  // namespace
}  // namespace plimsoll
