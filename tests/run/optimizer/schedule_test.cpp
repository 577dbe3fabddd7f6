#include "plimsoll/options.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

SchedulerConfig schedule(const std::string& name, int64_t warmup_steps, double min_lr_ratio = 0.1) {
  return {.name = name, .warmup_steps = warmup_steps, .min_lr_ratio = min_lr_ratio};
}

TEST(Schedule, RisesLinearlyToTheRateAtTheEndOfTheWarmUp) {
  for (const char* name : {"constant", "linear", "cosine"}) {
    EXPECT_DOUBLE_EQ(learning_rate_at(schedule(name, 4), 2.0, 1, 100), 0.5) << name;
    EXPECT_DOUBLE_EQ(learning_rate_at(schedule(name, 4), 2.0, 3, 100), 1.5) << name;
    EXPECT_DOUBLE_EQ(learning_rate_at(schedule(name, 4), 2.0, 4, 100), 2.0) << name;
  }
}

TEST(Schedule, BeginsWithTheRateWithoutAWarmUp) {
  for (const char* name : {"constant", "linear", "cosine"})
    EXPECT_DOUBLE_EQ(learning_rate_at(schedule(name, 0), 2.0, 1, 100), 2.0) << name;
}

TEST(Schedule, ConstantStaysAndHasNoUseForTheLeastRate) {
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule("constant", 4), 2.0, 100, 100), 2.0);
}

TEST(Schedule, LinearFallsInAStraightLineToTheLeastRateAtTheLastStep) {
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule("linear", 10), 1.0, 60, 110), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule("linear", 10), 1.0, 110, 110), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule("linear", 10, 0), 1.0, 110, 110), 0.0);
}

TEST(Schedule, CosineIsHalfWayInTheMiddleAndAtTheLeastRateAtTheLastStep) {
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule("cosine", 10), 1.0, 60, 110), 0.55);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule("cosine", 10), 1.0, 110, 110), 0.1);
  // A quarter of the way: (1 + cos(pi / 4)) / 2 of the fall is left.
  EXPECT_NEAR(learning_rate_at(schedule("cosine", 10, 0), 1.0, 35, 110), 0.8535533905932737, 1e-12);
}

TEST(Schedule, NeverRisesAfterTheWarmUp) {
  for (const char* name : {"linear", "cosine"})
    for (int64_t step = 5; step < 50; ++step)
      EXPECT_LT(learning_rate_at(schedule(name, 5), 1.0, step + 1, 50),
                learning_rate_at(schedule(name, 5), 1.0, step, 50))
          << name << " at step " << step;
}

TEST(Schedule, StaysAtTheLeastRatePastTheLastStep) {
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule("cosine", 0), 1.0, 500, 100), 0.1);
}

TEST(Schedule, AWarmUpLongerThanTheJobNeverFalls) {
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule("cosine", 200), 1.0, 100, 100), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule("cosine", 100), 1.0, 100, 100), 1.0);
}

TEST(Schedule, AJobOfOneStepTakesItAtTheRate) {
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule("cosine", 0), 1.0, 1, 1), 1.0);
}

}  // namespace
}  // namespace plimsoll
