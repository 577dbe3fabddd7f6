// The first two steps of a run count only if there are no others.
#include "train/loop/step_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StepTimes times_of(const std::vector<double>& seconds) {
  StepTimes times;
  for (const double each : seconds) times.add(each, 12, 2 * each, each / 4);
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
  EXPECT_EQ(times_of({9, 9, 1, 2, 6}).mean_data_seconds(), 0.75);
  EXPECT_EQ(times_of({9, 9, 1, 2, 6}).median_compute_seconds(), 1.5);
  EXPECT_EQ(times_of({9, 9, 2, 4}).tokens_per_second(), 4);
}

TEST(DataNote, NamesAWaitOfMoreThanATenth) {
  Job job;
  job.device = "cpu";
  job.threads = 1;
  job.data.num_workers = 3;
  const auto note_of = [&](double data_seconds) {
    StepTimes times;
    for (int i = 0; i < 5; ++i) times.add(2, 12, 2, data_seconds);
    return data_note(job, times);
  };
  EXPECT_EQ(note_of(0), "");
  EXPECT_EQ(note_of(0.19), "");
  EXPECT_THAT(note_of(0.5), HasSubstr("steps waited for data for 25 % of their time; raise data.num_workers (now 3)"));
  job.data.num_workers = 4;
  job.data.prefetch = 4;  // more workers than batches ahead would only wait
  EXPECT_THAT(note_of(0.5), HasSubstr("raise data.num_workers (now 4) and data.prefetch (now 4)"));
  job.threads = 1000;
  EXPECT_THAT(note_of(0.5), HasSubstr("lower threads (now 1000)"));
  job.device = "cuda";
  EXPECT_THAT(note_of(0.5), Not(HasSubstr("lower threads")));
}

// Several workers deliver batches in bursts: most steps do not wait.
TEST(DataNote, CountsTheWaitsOfAFewSteps) {
  StepTimes times;
  for (int i = 0; i < 22; ++i) times.add(2, 12, 2, i % 4 == 3 ? 1.8 : 0);
  EXPECT_THAT(data_note(Job(), times), HasSubstr("for data for 22 % of"));
}

}  // namespace
}  // namespace plimsoll
