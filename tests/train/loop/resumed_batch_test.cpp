// Tests that a checkpoint from the time when batch_size next to an accumulation was the whole step is not continued
// with another batch.
#include "train/loop/resumed_batch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plimsoll/error.h"
#include "refusals.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kWindows = 40;  // windows of an epoch

int64_t epoch_of(int64_t position) {
  return position / kWindows;
}

/// Returns "accepted" if the job continues from `position` after this number of steps, else the message.
std::string refusal(const std::string& yaml, int64_t steps, int64_t position) {
  const Job job = parse_job("data.files: a.txt\n" + yaml, "job.yaml", "");
  ResolvedSettings settings;
  settings.micro_batch_size = job.micro_batch_size.value_or(1);
  settings.gradient_accumulation_steps = job.gradient_accumulation_steps.value_or(AccumulationSchedule{{0, 1}});
  return refusal_of([&] { require_same_batch_meaning(job, settings, steps, position, epoch_of, "step-7.safetensors"); },
                    UserError::Kind::usage);
}

/// Returns the position of a run after `steps` steps, each with `micro` x the epoch's number of samples.
int64_t after(int64_t steps, int64_t micro, const AccumulationSchedule& accumulation) {
  int64_t position = 0;
  for (int64_t step = 0; step < steps; ++step)
    position += micro * std::prev(accumulation.upper_bound(epoch_of(position)))->second;
  return position;
}

TEST(ResumedBatch, TheOldMeaningIsRefusedWithBothWaysOn) {
  EXPECT_EQ(
      refusal("batch_size: 16\ngradient_accumulation_steps: 2", 100, 1600),
      "step-7.safetensors has 1600 samples in 100 steps: an earlier version of Plimsoll took batch_size: 16 as the "
      "samples of a whole step. This version takes it as the micro batch, 16 x 2 = 32 samples in each step; to "
      "continue "
      "as before, add micro_batch_size: 8; to continue with 32 samples, replace batch_size by micro_batch_size: 16");
  EXPECT_THAT(refusal("batch_size: 10\ngradient_accumulation_steps: 4", 3, 30), HasSubstr("add micro_batch_size: 3;"));
  EXPECT_THAT(refusal("gradient_accumulation_steps: 2", 5, 40), HasSubstr("add micro_batch_size: 4;"));
}

TEST(ResumedBatch, WhatHasTheSameMeaningGoesOn) {
  EXPECT_EQ(refusal("batch_size: 16\ngradient_accumulation_steps: 2", 100, 3200), "accepted");
  EXPECT_EQ(refusal("batch_size: 16\ngradient_accumulation_steps: 2", 100, 2000),
            "accepted");  // neither: it was changed
  EXPECT_EQ(refusal("batch_size: 16\ngradient_accumulation_steps: 2", 0, 0), "accepted");
  // Nothing to mistake: the file says which.
  EXPECT_EQ(refusal("batch_size: 16\nmicro_batch_size: 8\ngradient_accumulation_steps: 2", 100, 1600), "accepted");
  EXPECT_EQ(refusal("micro_batch_size: 16\ngradient_accumulation_steps: 2", 100, 1600), "accepted");
  EXPECT_EQ(refusal("batch_size: 16", 100, 1600), "accepted");
  // The largest number that a damaged file may have.
  EXPECT_EQ(refusal("batch_size: 16\ngradient_accumulation_steps: 2", int64_t{1} << 62, int64_t{1} << 62), "accepted");
}

TEST(ResumedBatch, SchedulesAreFollowedThroughTheirEpochs) {
  const AccumulationSchedule schedule = {{0, 4}, {1, 2}, {3, 1}};
  for (const int64_t steps : {1, 2, 3, 5, 20, 77}) {
    const std::string job = "batch_size: 8\ngradient_accumulation_steps: {0: 4, 1: 2, 3: 1}";
    EXPECT_THAT(refusal(job, steps, after(steps, 2, schedule)),
                AllOf(HasSubstr("8 x 4 = 32"), HasSubstr("size: 2; to")))
        << steps;
    EXPECT_EQ(refusal(job, steps, after(steps, 8, schedule)), "accepted") << steps;
    // In four parts 6 would not have been taken.
    EXPECT_EQ(refusal("batch_size: 6\ngradient_accumulation_steps: {0: 4, 1: 2, 3: 1}", steps, 6 * steps), "accepted");
  }
}

}  // namespace
}  // namespace plimsoll
