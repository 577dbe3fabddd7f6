// The first two steps of a run count only if there are no others.
#include "train/loop/step_times.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

StepTimes times_of(const std::vector<double>& seconds) {
  StepTimes times;
  for (const double each : seconds) times.add(each, 12, 2 * each);
  return times;
}

TEST(StepTimes, WithoutAStepAreZero) {
  EXPECT_EQ(times_of({}).median_seconds(), 0);
  EXPECT_EQ(times_of({}).tokens_per_second(), 0);
  EXPECT_FALSE(times_of({}).representative());
}

TEST(StepTimes, TheFirstTwoCountIfThereAreNoOthers) {
  EXPECT_EQ(times_of({4}).median_seconds(), 4);
  EXPECT_EQ(times_of({4}).tokens_per_second(), 3);
  EXPECT_FALSE(times_of({4, 4}).representative());
  EXPECT_EQ(times_of({4, 4}).median_seconds(), 4);
}

TEST(StepTimes, LaterOnesCountAlone) {
  EXPECT_TRUE(times_of({9, 9, 2}).representative());
  EXPECT_EQ(times_of({9, 9, 2}).median_seconds(), 2);
  EXPECT_EQ(times_of({9, 9, 1, 2, 6}).median_seconds(), 2);
  EXPECT_EQ(times_of({9, 9, 1, 2, 6}).median_predicted_seconds(), 4);
  EXPECT_EQ(times_of({9, 9, 2, 4}).tokens_per_second(), 4);
}

}  // namespace
}  // namespace plimsoll
