// Tests formats that a job leaves to the planner: the most exact ones that fit.
#include "run/search/open_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/error.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

class FormatChoices : public ::testing::Test {
 protected:
  Job open_job() const {
    Job job = tiny_job(folder_, /*windows=*/8, /*validation=*/2);
    job.model.decoder.hidden_size = 128;
    job.precision = Precision::bf16_true;
    job.optimizer.state_dtype = StateDtype::automatic;
    job.optimizer.weight_update = WeightUpdate::automatic;
    job.accumulator_dtype = AccumulatorDtype::automatic;
    return job;
  }

  TempFolder folder_;
};

// Other accumulators are rounded at random, and refused for several devices.
TEST_F(FormatChoices, SeveralDevicesSumInFloat32) {
  Job job = open_job();
  job.batch_size = 4;
  job.micro_batch_size = 2;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 2}};
  job.ranks.count = 2;
  EXPECT_THAT(format_choices(job),
              ::testing::Each(::testing::Field(&TrainingOptions::accumulator_dtype, AccumulatorDtype::float32)));
  job.budget.device = 1;
  EXPECT_FALSE(plan_job(job).plan.fits);  // all choices were planned
}

Job in_formats(Job job, const TrainingOptions& choice) {
  static_cast<TrainingOptions&>(job) = choice;
  return job;
}

TEST_F(FormatChoices, WhatIsPinnedStaysAndEachStepTakesLess) {
  Job job = open_job();
  const auto all = format_choices(job);
  ASSERT_GT(all.size(), 4u);
  std::vector<int64_t> least;
  for (const TrainingOptions& each : all) {
    Job chosen = in_formats(job, each);
    EXPECT_EQ(format_choices(chosen).size(), 1);
    chosen.budget.device = 1;
    least.push_back(plan_job(chosen).minimum_budget_bytes);
  }
  EXPECT_TRUE(std::ranges::is_sorted(least, std::greater<>()));
  EXPECT_EQ(std::ranges::adjacent_find(least), least.end());

  job.optimizer.state_dtype = StateDtype::bfloat16;
  for (const TrainingOptions& each : format_choices(job)) EXPECT_EQ(each.optimizer.state_dtype, StateDtype::bfloat16);
  job.optimizer.weight_update = WeightUpdate::kahan;
  job.accumulator_dtype = AccumulatorDtype::as_gradients;
  EXPECT_EQ(format_choices(job).size(), 1u);
  job.dtype = DType::float16;
  job.optimizer.weight_update = WeightUpdate::automatic;
  EXPECT_EQ(format_choices(job)[0].optimizer.weight_update, WeightUpdate::kahan);

  // A format without effect is no choice: 32-true, one micro batch.
  job = open_job();
  job.precision = Precision::fp32_true;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  job.micro_batch_size = job.batch_size;
  EXPECT_EQ(format_choices(job).size(), 3u);
}

TEST_F(FormatChoices, TheMostExactThatFitsIsTaken) {
  const Job job = open_job();
  const auto choices = format_choices(job);
  Job tight = job;
  tight.budget.device = 1;
  const PlannedJob nothing = plan_job(tight);
  EXPECT_FALSE(nothing.plan.fits);
  const int64_t least = nothing.minimum_budget_bytes;
  for (size_t i = 0; i < choices.size(); ++i) {
    Job alone = in_formats(job, choices[i]);
    alone.budget.device = 1;
    tight.budget.device = plan_job(alone).minimum_budget_bytes;
    const PlannedJob planned = plan_job(tight);
    EXPECT_TRUE(planned.plan.fits);
    EXPECT_EQ(planned.minimum_budget_bytes, least);
    EXPECT_EQ(planned.settings.optimizer.state_dtype, choices[i].optimizer.state_dtype);
    EXPECT_EQ(planned.settings.optimizer.weight_update, choices[i].optimizer.weight_update);
    EXPECT_EQ(planned.settings.accumulator_dtype, choices[i].accumulator_dtype);
    EXPECT_THAT(planned.plan.reasons, Contains(Field(&Reason::decision, HasSubstr("state_dtype"))));
  }
  tight.budget.device = least - 1;
  EXPECT_FALSE(plan_job(tight).plan.fits);
}

TEST_F(FormatChoices, AResumedRunKeepsWhatWasChosen) {
  Job job = open_job();
  Job alone = in_formats(job, format_choices(job).back());
  alone.budget.device = 1;
  job.budget.device = plan_job(alone).minimum_budget_bytes;
  job.scheduler.name = "constant";  // its course does not depend on max_steps
  job.checkpoint.directory = folder_ / "run";
  job.max_steps = 3;
  Watcher watcher;
  const TrainReport first = train_job(job, watcher);
  EXPECT_TRUE(first.fits);
  EXPECT_EQ(first.job.settings.optimizer.state_dtype, StateDtype::bits4);
  job.max_steps = 6;
  job.budget.device = int64_t{1} << 30;
  const TrainReport second = train_job(job, watcher);
  EXPECT_EQ(second.job.settings.optimizer.state_dtype, StateDtype::bits4);
  EXPECT_EQ(second.job.settings.optimizer.weight_update, first.job.settings.optimizer.weight_update);
  EXPECT_EQ(second.job.settings.accumulator_dtype, first.job.settings.accumulator_dtype);
  EXPECT_THAT(watcher.resumed_from, ::testing::SizeIs(1));

  // Never stopped, the same losses.
  job.checkpoint.directory.clear();
  Job resolved = resolved_job(job, first.job);
  resolved.budget.device = job.budget.device;
  const TrainReport whole = train_job(resolved, watcher);
  EXPECT_EQ(whole.losses.back(), second.losses.back());
}

}  // namespace
}  // namespace plimsoll
