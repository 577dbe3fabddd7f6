// Tests a last micro batch that is smaller than the others: the step is that of the whole batch, in the planned bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "refusals.h"
#include "run/equality.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

using testing::Batch;
using ::testing::HasSubstr;
using testing::token_batch;

constexpr int64_t kTime = 24, kVocabulary = 131;

Step ragged_decoder(int64_t samples) {
  DecoderConfig config;
  config.vocab_size = kVocabulary;
  config.hidden_size = 48;
  config.num_layers = 3;
  config.num_heads = 4;
  return decoder_step(config, samples, kTime);
}

TrainingOptions ragged_options() {
  TrainingOptions options;
  options.accumulate = true;
  options.last_micro_batch = 2;
  options.threads = 1;
  return options;
}

std::vector<Batch> cut(const Batch& whole, const std::vector<int64_t>& sizes) {
  std::vector<Batch> parts;
  int64_t first = 0;
  for (int64_t size : sizes) {
    Batch& part = parts.emplace_back();
    for (const auto& [name, tensor] : whole) part[name] = tensor.narrow(0, first, size);
    first += size;
  }
  return parts;
}

using StateTensors = std::map<std::string, torch::Tensor>;

StateTensors copy_of(Training& training) {
  StateTensors state;
  for (const auto& [name, tensor] : training.state()) state[name] = tensor.clone();
  return state;
}

// Plain gradient descent moves a parameter by its gradient.
TEST(Ragged, GradientsAreThoseOfTheWholeBatch) {
  torch::manual_seed(1);
  TrainingOptions options;
  options.optimizer = {.name = "sgd", .weight_decay = 0, .momentum = 0};
  options.max_grad_norm = 0;
  Training whole(ragged_decoder(10), options);
  options.accumulate = true;
  options.last_micro_batch = 2;
  Training ragged(ragged_decoder(4), options);
  options.last_micro_batch = 0;
  Training fives(ragged_decoder(5), options);
  for (Training* each : {&whole, &ragged, &fives}) each->start();
  const StateTensors before = copy_of(whole);
  const Batch batch = token_batch(10, kTime, kVocabulary);
  const StepResult expected = whole.step({batch}, 1);
  const StateTensors after = copy_of(whole);
  for (const auto& [training, sizes] : {std::pair{&ragged, std::vector<int64_t>{4, 4, 2}}, {&fives, {5, 5}}}) {
    const StepResult result = training->step(cut(batch, sizes), 1);
    EXPECT_NEAR(result.loss, expected.loss, 1e-6 * expected.loss);
    EXPECT_NEAR(result.gradient_norm, expected.gradient_norm, 1e-5 * expected.gradient_norm);
    for (const auto& [name, tensor] : copy_of(*training)) {
      const torch::Tensor gradient = after.at(name) - before.at(name), found = tensor - before.at(name);
      EXPECT_LT((found - gradient).norm().item<double>(), 1e-5 * gradient.norm().item<double>()) << name;
    }
  }
}

struct RaggedCase {
  Precision precision;
  Choice checkpointing;
};

class RaggedModes : public ::testing::TestWithParam<RaggedCase> {};

TEST_P(RaggedModes, IsEagerBitForBit) {
  torch::manual_seed(2);
  TrainingOptions options = ragged_options();
  options.precision = GetParam().precision;
  options.gradient_checkpointing = GetParam().checkpointing;
  int number = 0;
  testing::expect_equal(
      ragged_decoder(4), options, [&] { return token_batch(number++ % 3 == 2 ? 2 : 4, kTime, kVocabulary); }, 3, 3);
}

std::vector<RaggedCase> ragged_cases() {
  std::vector<RaggedCase> cases;
  for (auto precision : {Precision::fp32_true, Precision::bf16_mixed, Precision::fp16_mixed, Precision::bf16_true})
    for (auto checkpointing : {Choice::off, Choice::on}) cases.push_back({precision, checkpointing});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(PrecisionCheckpointing, RaggedModes, ::testing::ValuesIn(ragged_cases()));

TEST(Ragged, StepsOfBothKindsFollowEachOther) {
  torch::manual_seed(3);
  Training training(ragged_decoder(4), ragged_options());
  training.start();
  testing::EagerStep eager(ragged_decoder(4), {});
  eager.copy_from(training);
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{4, 4, 2}, {4, 4}, {4}, {4, 2}, {4, 4, 4, 2}, {4, 4, 4}}) {
    std::vector<Batch> batches;
    for (int64_t size : sizes) batches.push_back(token_batch(size, kTime, kVocabulary));
    EXPECT_EQ(training.step(batches, 1e-3).loss, eager.step(batches, 1e-3));
  }
  const auto reference = eager.state();
  for (const auto& [name, tensor] : training.state())
    EXPECT_TRUE(testing::same_bits(tensor, reference.at(name))) << name;
}

struct RaggedResult {
  std::vector<double> losses;
  Plan plan;
  MemoryUse used;
};

RaggedResult train_ragged(TrainingOptions options, int steps = 4) {
  torch::manual_seed(7);
  Training training(ragged_decoder(4), options);
  training.start();
  RaggedResult result;
  for (int i = 0; i < steps; ++i)
    result.losses.push_back(training.step(cut(token_batch(10, kTime, kVocabulary), {4, 4, 2}), 1e-3).loss);
  result.plan = training.plan();
  result.used = training.used();
  return result;
}

TEST(Ragged, PlannedIsUsedAndCheckpointingKeepsTheLosses) {
  TrainingOptions options = ragged_options();
  std::vector<RaggedResult> results;
  for (Choice checkpointing : {Choice::off, Choice::on}) {
    options.gradient_checkpointing = checkpointing;
    const RaggedResult& result = results.emplace_back(train_ragged(options));
    EXPECT_EQ(result.used.arena, result.plan.arena_bytes);
    EXPECT_LE(result.used.touched, result.plan.arena_bytes);
    EXPECT_NEAR(static_cast<double>(result.used.measured_peak()), static_cast<double>(result.plan.peak_bytes),
                0.01 * static_cast<double>(result.plan.peak_bytes));
    EXPECT_GT(result.plan.time.remainder, 0);
    EXPECT_LT(result.plan.time.remainder, result.plan.time.accumulate);
  }
  EXPECT_EQ(results[0].losses, results[1].losses);
  EXPECT_LT(results[1].plan.peak_bytes, results[0].plan.peak_bytes);
  // Nothing is allocated for the smaller one: it runs in the bytes of the others.
  options.gradient_checkpointing = Choice::off;
  options.last_micro_batch = 0;
  EXPECT_EQ(Training(ragged_decoder(4), options).plan().persistent_bytes, results[0].plan.persistent_bytes);
}

TEST(Ragged, TheMinimumTrains) {
  TrainingOptions options = ragged_options();
  const std::vector<double> losses = train_ragged(options).losses;
  Training open(ragged_decoder(4), options);
  open.start();
  options.budget.device = open.minimum_budget_bytes();
  ASSERT_LT(*options.budget.device, open.plan().peak_bytes);
  const RaggedResult least = train_ragged(options);
  EXPECT_LE(least.used.measured_peak(), *options.budget.device);
  EXPECT_EQ(least.losses, losses);
}

// The smaller micro batch recomputes the same values: the minimum budget does not depend on it.
TEST(Ragged, TheMinimumIsThatOfTheOthers) {
  TrainingOptions options = ragged_options();
  options.last_micro_batch = 0;
  const int64_t least = Training(ragged_decoder(4), options).minimum_budget_bytes();
  for (int64_t last : {1, 2, 3}) {
    options.last_micro_batch = last;
    EXPECT_EQ(Training(ragged_decoder(4), options).minimum_budget_bytes(), least) << last;
  }
}

TEST(Ragged, WrongSizesAreRefused) {
  Training training(ragged_decoder(4), ragged_options());
  training.start();
  const auto refusal = [&](const std::vector<int64_t>& sizes) {
    std::vector<Batch> batches;
    for (int64_t size : sizes) batches.push_back(token_batch(size, kTime, kVocabulary));
    return refusal_of([&] { training.step(batches, 1e-3); });
  };
  EXPECT_EQ(refusal({4, 4, 2}), "accepted");
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2}, {2, 4}, {2, 2}, {4, 2, 4}, {4, 3}})
    EXPECT_THAT(refusal(sizes),
                HasSubstr("the step declares Long [4, 24], and of the last of several micro batches 2"));
  Batch uneven = token_batch(2, kTime, kVocabulary);
  uneven["targets"] = uneven["targets"].narrow(1, 0, 20);
  EXPECT_THAT(refusal_of([&] {
                training.step({token_batch(4, kTime, kVocabulary), uneven}, 1e-3);
              }),
              HasSubstr("'targets' is Long [2, 20]; the step declares Long [2, 24] of the last micro batch"));
  EXPECT_EQ(refusal({4, 4, 2}), "accepted");

  Training plain(ragged_decoder(4), {.accumulate = true});
  plain.start();
  const std::vector<Batch> batches = {token_batch(4, kTime, kVocabulary), token_batch(2, kTime, kVocabulary)};
  EXPECT_THAT(refusal_of([&] { plain.step(batches, 1e-3); }), HasSubstr("the step declares Long [4, 24]"));
  const auto next = [&](int64_t index) -> const Batch& { return batches[index]; };
  EXPECT_THAT(refusal_of([&] { plain.step(2, next, 1e-3, true); }), HasSubstr("last_micro_batch"));
  EXPECT_THAT(refusal_of([&] { training.step(1, next, 1e-3, true); }), HasSubstr("only the last of several"));
}

TEST(Ragged, InputsMustHaveSamplesFirst) {
  Step step;
  step.model = [] { return torch::nn::Linear(3, 1).ptr(); };
  step.loss = [](torch::nn::Module& module, const StepInputs& in) {
    return (static_cast<torch::nn::LinearImpl&>(module).forward(in["x"]) * in["scale"]).mean();
  };
  const auto refusal = [&](std::vector<InputSpec> inputs, int64_t last) {
    step.inputs = std::move(inputs);
    TrainingOptions options = ragged_options();
    options.last_micro_batch = last;
    return refusal_of([&] { record_step(step, options); });
  };
  EXPECT_THAT(refusal({{"x", {4, 3}, torch::kFloat32}, {"scale", {}, torch::kFloat32}}, 2), HasSubstr("'scale' is []"));
  EXPECT_THAT(refusal({{"x", {4, 3}, torch::kFloat32}, {"scale", {1}, torch::kFloat32}}, 2),
              HasSubstr("'scale' is [1], 'x' [4, 3]"));
  const std::vector<InputSpec> good = {{"x", {4, 3}, torch::kFloat32}, {"scale", {4, 1}, torch::kFloat32}};
  EXPECT_EQ(refusal(good, 2), "accepted");
  for (int64_t last : {4, 5, -1}) EXPECT_THAT(refusal(good, last), HasSubstr("it must be less than the 4 samples"));
}

}  // namespace
}  // namespace plimsoll
