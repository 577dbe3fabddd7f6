// Tests the keys of a run's length, and other programs' names of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_testing.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

TEST(RunLengthKeys, EpochsAloneSetNoLimitOfSteps) {
  EXPECT_EQ(parsed("max_epochs: 3").max_steps, std::nullopt);
  EXPECT_EQ(parsed("max_epochs: 3\nmax_steps: none").max_steps, std::nullopt);
  EXPECT_EQ(parsed("max_epochs: 3\nmax_steps: 40").max_steps, 40);
  EXPECT_EQ(parsed("num_train_epochs: 3").max_epochs, 3);
}

TEST(RunLengthKeys, OtherProgramsNumbersAreRead) {
  EXPECT_EQ(parsed("num_train_epochs: 3.0").max_epochs, 3);
  EXPECT_THAT(refusal("num_train_epochs: 0.5"), HasSubstr("max_epochs"));
  const Job job = parsed("num_train_epochs: 2.00\nmax_steps: -1\nwarmup_ratio: 0.03");
  EXPECT_EQ(job.max_epochs, 2);
  EXPECT_EQ(job.max_steps, std::nullopt);
  EXPECT_EQ(job.scheduler.warmup_ratio, 0.03);
}

TEST(RunLengthKeys, ARunHasAnEnd) {
  EXPECT_THAT(refusal("max_steps: none"), HasSubstr("the run has no end; set max_epochs"));
  EXPECT_THAT(refusal("max_steps: -1"), HasSubstr("the run has no end; set max_epochs"));
}

TEST(RunLengthKeys, AWarmUpHasOneLength) {
  EXPECT_THAT(refusal("scheduler: {warmup_steps: 10, warmup_ratio: 0.1}"), HasSubstr("set only one of them"));
  EXPECT_EQ(parsed("scheduler: {warmup_steps: 0, warmup_ratio: 0.1}").scheduler.warmup_ratio, 0.1);
  EXPECT_EQ(parsed("warmup_steps: 100\nwarmup_ratio: 0.0").scheduler.warmup_steps, 100);  // transformers' defaults
}

TEST(RunLengthKeys, AScheduleMayHaveOtherStepsThanTheRun) {
  EXPECT_EQ(parsed("max_steps: 20").scheduler.steps, std::nullopt);
  EXPECT_EQ(parsed("max_steps: 20\nscheduler: {steps: auto}").scheduler.steps, std::nullopt);
  EXPECT_EQ(parsed("max_steps: 20\nscheduler: {steps: 10}").scheduler.steps, 10);
}

// Lightning#11950: 1.0 is the whole held-out part, and 1 is one batch.
TEST(RunLengthKeys, AFloatLimitOfEvaluationsIsAllOfThem) {
  for (const char* name : {"limit_val_batches", "trainer.limit_val_batches", "training.limit_val_batches"}) {
    EXPECT_EQ(parsed(std::string(name) + ": 1.0").eval_batches, kAllBatches) << name;
    EXPECT_EQ(parsed(std::string(name) + ": 1").eval_batches, 1) << name;
    EXPECT_THAT(refusal(std::string(name) + ": 0.25"), HasSubstr("in its place set eval_batches: all")) << name;
  }
  EXPECT_EQ(parsed("eval_batches: all").eval_batches, kAllBatches);
  EXPECT_EQ(parsed("eval_batches: auto").eval_batches, std::nullopt);
}

}  // namespace
}  // namespace plimsoll
