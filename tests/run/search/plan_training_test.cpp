#include "plimsoll/plan_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

using testing::Batch;
using ::testing::HasSubstr;
using testing::token_batch;

constexpr int64_t kTime = 24, kVocabulary = 131, kBatch = 12;

Step small_decoder(int64_t samples) {
  DecoderConfig config;
  config.vocab_size = kVocabulary;
  config.hidden_size = 48;
  config.num_layers = 3;
  config.num_heads = 4;
  return decoder_step(config, samples, kTime);
}

TrainingOptions open_options() {
  TrainingOptions options;
  options.batch_size = kBatch;
  options.threads = 1;
  options.seed = 3;
  return options;
}

PlanTarget target_with(std::optional<int64_t> budget) {
  PlanTarget target;
  target.cost = generic_cost_model();
  target.budget.device = budget;
  return target;
}

PlannedTraining planned_in(int64_t budget, const TrainingOptions& options = open_options()) {
  return plan_training(small_decoder, options, target_with(budget));
}

// Trains three steps of the same batches in the planned micro batches, and returns the losses.
std::vector<double> losses_of(const PlannedTraining& planned) {
  const int64_t size = planned.settings.micro_batch();
  Training training(small_decoder(size), planned.settings, planned);
  training.start();
  torch::manual_seed(5);
  std::vector<double> losses;
  for (int i = 0; i < 3; ++i) {
    const Batch whole = token_batch(kBatch, kTime, kVocabulary);
    std::vector<Batch> parts((kBatch + size - 1) / size);
    for (const auto& [name, tensor] : whole) {
      const std::vector<at::Tensor> split = tensor.split(size);
      for (size_t part = 0; part < parts.size(); ++part) parts[part][name] = split[part];
    }
    losses.push_back(training.step(parts, 1e-2).loss);
  }
  EXPECT_EQ(training.used().measured_peak(), training.plan().peak_bytes);
  return losses;
}

TEST(PlanTraining, ChoosesTheMicroBatchByTheBudgetAndTrainsTheSame) {
  const PlannedTraining whole = planned_in(1 << 30);
  EXPECT_EQ(whole.settings.micro_batch(), kBatch);
  EXPECT_FALSE(whole.settings.accumulate);
  const PlannedTraining small = planned_in(whole.minimum_budget_bytes * 21 / 20);
  ASSERT_TRUE(small.plan.fits);
  EXPECT_LT(small.settings.micro_batch(), kBatch);
  EXPECT_TRUE(small.settings.accumulate);
  EXPECT_EQ(small.settings.sequences(small.settings.first_accumulation()), kBatch);
  EXPECT_THAT(small.plan.reasons,
              ::testing::Contains(::testing::Field(&Reason::decision, HasSubstr("micro_batch_size"))));
  const std::vector<double> a = losses_of(whole), b = losses_of(small);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * a[i]) << i;
}

TEST(PlanTraining, TheMinimumBudgetIsThatOfAllOpenChoicesAndSuffices) {
  TrainingOptions options = open_options();
  options.precision = Precision::automatic;
  options.optimizer.state_dtype = StateDtype::automatic;
  options.accumulator_dtype = AccumulatorDtype::automatic;
  const PlannedTraining nothing = planned_in(1, options);
  EXPECT_FALSE(nothing.plan.fits);
  const int64_t least = nothing.minimum_budget_bytes;
  EXPECT_LT(least, planned_in(1).minimum_budget_bytes);
  EXPECT_TRUE(planned_in(least, options).plan.fits);
  EXPECT_FALSE(planned_in(least - 1, options).plan.fits);
  // No choice is open in the result.
  EXPECT_NE(nothing.settings.precision, Precision::automatic);
  EXPECT_NE(nothing.settings.optimizer.state_dtype, StateDtype::automatic);
  EXPECT_NE(nothing.settings.accumulator_dtype, AccumulatorDtype::automatic);
}

TEST(PlanTraining, FewerBytesTakeAtMostTheAcceptedTimeAndTrainTheSame) {
  TrainingOptions options = open_options();
  options.micro_batch_size = kBatch;
  const PlannedTraining fastest = plan_training(small_decoder, options, target_with(std::nullopt));
  int64_t bytes = fastest.plan.peak_bytes;
  for (const double slowdown : {0.03, 0.3}) {
    const PlannedTraining lean =
        plan_training(small_decoder, options, target_with(std::nullopt), {.accepted_slowdown = slowdown});
    EXPECT_LT(lean.plan.peak_bytes, bytes) << slowdown;
    EXPECT_GT(lean.step_seconds, fastest.step_seconds);
    EXPECT_LE(lean.step_seconds, fastest.step_seconds * (1 + slowdown));
    EXPECT_EQ(lean.minimum_budget_bytes, fastest.minimum_budget_bytes);
    EXPECT_THAT(lean.plan.reasons,
                ::testing::Contains(::testing::Field(&Reason::decision, HasSubstr("memory_budget: none is stated"))));
    EXPECT_EQ(losses_of(lean), losses_of(fastest));
    bytes = lean.plan.peak_bytes;
  }
}

TEST(PlanTraining, TheAcceptedTimeIsAPartAndABudgetIsStatedOnce) {
  for (const double wrong : {-0.1, 1.5, std::nan("")})
    EXPECT_THROW(plan_training(small_decoder, open_options(), target_with(1 << 30), {.accepted_slowdown = wrong}),
                 UserError)
        << wrong;
  int fits = 0;
  plan_training(small_decoder, open_options(), target_with(std::nullopt),
                {.on_fit = [&](int64_t) { ++fits; }, .accepted_slowdown = 0.1});
  EXPECT_EQ(fits, 0);
}

TEST(PlanTraining, AStatedMicroBatchHasThePlanOfPlanStep) {
  TrainingOptions options = open_options();
  options.micro_batch_size = 5;  // 5 + 5 + 2
  options.budget.device = 1 << 30;
  options.cost = generic_cost_model();
  const PlannedTraining planned = planned_in(1 << 30, options);
  EXPECT_EQ(describe_micro_batches(planned.settings), "5 x 2 + 2");
  TrainingOptions alone = with_batch(planned.settings);
  EXPECT_EQ(alone.last_micro_batch, 2);
  EXPECT_EQ(plan_hash(plan_step(small_decoder(5), alone).plan), plan_hash(planned.plan));
}

TEST(PlanTraining, PrefetchedMicroBatchesTakeHostMemory) {
  TrainingOptions options = open_options();
  options.prefetched_micro_batches = 3;
  PlanTarget target = target_with(1 << 30);
  target.budget.host = 1 << 20;
  const ResolvedSettings settings = plan_training(small_decoder, options, target).settings;
  EXPECT_EQ(settings.prefetched_batch_bytes, 3 * 2 * kBatch * kTime * 8);  // tokens and targets, int64
  EXPECT_EQ(settings.budget.host, (1 << 20) - settings.prefetched_batch_bytes);
}

TEST(PlanTraining, SaysOnceThatItFitsAndStopsOnRequest) {
  std::vector<int64_t> enough;
  SearchOptions search{.on_fit = [&](int64_t bytes) { enough.push_back(bytes); }};
  TrainingOptions options = open_options();
  options.ranks.count = 2;  // two strategies
  const PlannedTraining planned = plan_training(small_decoder, options, target_with(1 << 30), search);
  EXPECT_EQ(enough.size(), 1u);
  EXPECT_GE(planned.plan.peak_bytes, enough.front());
  struct Stop {};
  search.on_schedule = [] { throw Stop(); };
  EXPECT_THROW(plan_training(small_decoder, options, target_with(1 << 30), search), Stop);
}

TEST(PlanTraining, BatchesThatContradictThemselvesAreRefused) {
  const auto refusal = [](const std::function<void(TrainingOptions&)>& change) -> std::string {
    TrainingOptions options = open_options();
    change(options);
    try {
      planned_in(1 << 30, options);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal([](TrainingOptions& of) { of.batch_size.reset(); }),
              HasSubstr("needs TrainingOptions::batch_size"));
  EXPECT_THAT(refusal([](TrainingOptions& of) { of.micro_batch_size = 0; }), HasSubstr("at least 1"));
  EXPECT_THAT(refusal([](TrainingOptions& of) {
                of.gradient_accumulation_steps = AccumulationSchedule{{0, 2}};
              }),
              HasSubstr("needs micro_batch_size"));
  EXPECT_THAT(refusal([](TrainingOptions& of) {
                of.micro_batch_size = 4;
                of.gradient_accumulation_steps = AccumulationSchedule{{0, 2}};
              }),
              HasSubstr("2 micro batches of 4 samples are 8"));
  EXPECT_EQ(refusal([](TrainingOptions& of) { of.micro_batch_size = 4; }), "");
}

TEST(PlanTraining, AnOpenPrecisionIsNotRecorded) {
  TrainingOptions options;
  options.precision = Precision::automatic;
  EXPECT_THROW(record_step(small_decoder(2), options), UserError);
}

TEST(PlanTraining, ARankPlansItsOwnSlices) {
  TrainingOptions options = open_options();
  options.ranks = {.count = 2, .rank = 1, .strategy = Strategy::zero3};
  const PlanTarget target = target_of(options);
  EXPECT_EQ(target.ranks.rank, 1);
  EXPECT_EQ(target.ranks.count, 2);
  EXPECT_EQ(plan_training(small_decoder, options, target).settings.ranks.rank, 1);
}

}  // namespace
}  // namespace plimsoll
