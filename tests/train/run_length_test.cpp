// Tests that epochs, steps and the schedule of the learning rate are one calculation.
#include "plimsoll/run_length.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "data/text/text_dataset.h"
#include "plimsoll/error.h"
#include "plimsoll/options.h"
#include "tiny_job.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Records the length that a run counted.
class LengthWatcher : public Watcher {
 public:
  void counted(const RunLength& length, const EvaluatedPart&) override { lengths.push_back(length); }
  void noted(const std::string& what) override { notes.push_back(what); }
  std::vector<RunLength> lengths;
  std::vector<std::string> notes;
};

Job job_of(std::optional<int64_t> max_steps, std::optional<int64_t> max_epochs) {
  Job job;
  job.batch_size = 4;
  job.max_steps = max_steps;
  job.max_epochs = max_epochs;
  return job;
}

std::string described(const Job& job, std::optional<int64_t> samples) {
  return describe_run_length(job, run_length_of(job, samples));
}

TEST(RunLength, EpochsAloneAreAllRun) {
  const RunLength length = run_length_of(job_of({}, 3), 1187 * 4).value();
  EXPECT_EQ(length.steps, 3561);
  EXPECT_TRUE(length.ends_with_epochs());
  // A step may read samples of two epochs: 10 samples three times in steps of 4.
  EXPECT_EQ(run_length_of(job_of({}, 3), 10)->steps, 8);
}

TEST(RunLength, TheFirstOfTwoLimitsCounts) {
  EXPECT_EQ(run_length_of(job_of(100, 3), 40)->steps, 30);
  EXPECT_TRUE(run_length_of(job_of(100, 3), 40)->ends_with_epochs());
  EXPECT_EQ(run_length_of(job_of(20, 3), 40)->steps, 20);
  EXPECT_FALSE(run_length_of(job_of(20, 3), 40)->ends_with_epochs());
}

TEST(RunLength, WithoutALimitItIsTheDefault) {
  EXPECT_EQ(run_length_of(job_of({}, {}), {})->steps, kDefaultMaxSteps);
  EXPECT_EQ(run_length_of(job_of({}, {}), 8)->steps, kDefaultMaxSteps);
}

TEST(RunLength, IsOpenUntilTheSamplesAreKnown) {
  EXPECT_EQ(run_length_of(job_of({}, 3), {}), std::nullopt);
  EXPECT_EQ(run_length_of(job_of(50, 3), {})->steps, 50);
}

TEST(RunLength, DevicesReadTogether) {
  Job job = job_of({}, 2);
  job.ranks.count = 5;
  EXPECT_EQ(run_length_of(job, 100)->steps, 10);
}

TEST(RunLength, MoreStepsThanARunMayHaveAreRefusedUnlessMaxStepsEndsIt) {
  EXPECT_THROW(run_length_of(job_of({}, 1'000'000'000), int64_t{1} << 40), UserError);
  EXPECT_EQ(run_length_of(job_of(7, 1'000'000'000), int64_t{1} << 40)->steps, 7);
}

// The loop asks the epoch of each step's first sample, and counts on.
TEST(RunLength, AgreesWithCountingStepByStep) {
  std::mt19937 random(test_seed());
  const auto draw = [&](int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random); };
  for (int trial = 0; trial < 300; ++trial) {
    Job job = job_of({}, draw(1, 9));
    const int64_t samples = draw(1, 60);
    job.micro_batch_size = draw(1, 5);
    AccumulationSchedule counts = {{0, draw(1, 9)}};
    for (int64_t more = draw(0, 3); more > 0; --more) counts[draw(1, 8)] = draw(1, 9);
    job.gradient_accumulation_steps = counts;
    job.batch_size = *job.micro_batch_size * counts.at(0);
    job.ranks.count = draw(1, 3);
    int64_t position = 0, steps = 0;
    for (; position / samples < *job.max_epochs; ++steps)
      position += std::prev(counts.upper_bound(position / samples))->second * *job.micro_batch_size * job.ranks.count;
    EXPECT_EQ(run_length_of(job, samples)->steps, steps) << "trial " << trial;
  }
}

TEST(RunLength, AWarmUpMayBeAFractionOfTheSteps) {
  Job job = job_of({}, 3);
  job.scheduler.warmup_ratio = 0.1;
  EXPECT_EQ(run_length_of(job, 4 * 1187)->warmup_steps, 357);  // 356.1, rounded up
  job.scheduler.warmup_ratio.reset();
  job.scheduler.warmup_steps = 20;
  EXPECT_EQ(run_length_of(job, 4 * 1187)->warmup_steps, 20);
  job.scheduler.warmup_ratio = 0;
  EXPECT_EQ(run_length_of(job, 4 * 1187)->warmup_steps, 20);
}

TEST(RunLength, AScheduleMayHaveOtherSteps) {
  Job job = job_of(20, {});
  job.scheduler.steps = 10;
  job.scheduler.warmup_ratio = 0.2;
  const RunLength length = *run_length_of(job, 100);
  EXPECT_EQ(length.steps, 20);
  EXPECT_EQ(length.schedule_steps, 10);
  EXPECT_EQ(length.warmup_steps, 2);
  EXPECT_THAT(described(job, 100), HasSubstr("warm-up 2, cosine until step 10, then 0.1 of the learning rate"));
  job.scheduler.steps = 30;
  EXPECT_THAT(described(job, 100), ::testing::EndsWith("warm-up 6, cosine until step 30"));
  job.scheduler.steps.reset();
  EXPECT_EQ(run_length_of(job, 100)->schedule_steps, 20);
}

TEST(RunLength, IsDescribedWithItsSchedule) {
  Job job = job_of({}, 3);
  job.scheduler.warmup_steps = 20;
  EXPECT_EQ(described(job, 4 * 1187), "1187 steps an epoch x 3 = 3561 steps; warm-up 20, cosine until step 3561");
  EXPECT_EQ(described(job, 4 * 1187 + 2), "1187.5 steps an epoch x 3 = 3563 steps; warm-up 20, cosine until step 3563");
  EXPECT_THAT(described(job, {}), AllOf(HasSubstr("3 epochs"), HasSubstr("cosine until the last step")));
  job.max_steps = 5000;
  EXPECT_THAT(described(job, 4 * 1187), HasSubstr("max_epochs ends the run before max_steps 5000"));
  job.max_steps = 1000;
  EXPECT_THAT(described(job, 4 * 1187),
              AllOf(HasSubstr("1000 steps, 1187 an epoch"), HasSubstr("before max_epochs 3, which are 3561 steps")));
  job.scheduler = {.name = "constant", .warmup_steps = 2000};
  EXPECT_THAT(described(job, 4 * 1187), HasSubstr("not before the last step"));
}

// The count of a plan is that of the training, whatever the text begins with.
TEST(RunLength, SamplesOfTextAreKnownBeforeItIsTokenized) {
  const TempFolder folder;
  for (const std::string mark : {"", "\xef\xbb\xbf"}) {
    Job job = tiny_job(folder, 9, 3);
    job.data.cache_dir = folder / ("cache" + std::to_string(mark.size()));
    job.data.files.push_back(put_file(folder / "more.txt", mark + sample_text(333)));
    const std::optional<int64_t> known = known_training_samples(job);
    const auto tokenizer = make_tokenizer("bytes", "");
    EXPECT_EQ(known, TextDataset(job.data, *tokenizer).windows(Split::train)) << mark.size();
    EXPECT_EQ(known_training_samples(job), known) << "now from the cache";
  }
}

TEST(RunLength, SamplesOfMissingTextAreNotKnown) {
  const TempFolder folder;
  Job job = tiny_job(folder);
  job.data.files = {folder / "none.txt"};
  EXPECT_EQ(known_training_samples(job), std::nullopt);
  job.data.type = "synthetic";
  job.data.samples = 100;
  job.data.validation_fraction = 0.25;
  EXPECT_EQ(known_training_samples(job), 75);
}

// prime-rl#2246 and speculators#1104: the rate of a run that ends with its epochs has decayed at its real last step.
TEST(RunLength, TheScheduleEndsWithTheRunsLastStep) {
  const TempFolder folder;
  Job job = tiny_job(folder, /*windows=*/10);
  job.max_steps.reset();
  job.max_epochs = 3;
  job.optimizer.learning_rate = 1e-3;
  job.scheduler.warmup_ratio = 0.25;
  LengthWatcher watcher;
  const TrainReport report = train_job(job, watcher);
  ASSERT_EQ(report.steps, 8);  // 30 windows, 4 a step
  ASSERT_EQ(watcher.lengths.size(), 1u);
  EXPECT_EQ(watcher.lengths[0].steps, 8);
  EXPECT_EQ(report.length.samples, 10);
  for (const TrainProgress& each : watcher.steps) {
    EXPECT_EQ(each.max_steps, 8);
    EXPECT_EQ(each.learning_rate, learning_rate_at({.warmup_steps = 2}, 1e-3, each.step, 8));
  }
  EXPECT_DOUBLE_EQ(watcher.steps.back().learning_rate, 1e-4);
}

TEST(RunLength, AResumedRunNamesAnotherScheduleAndFollowsIt) {
  const TempFolder folder;
  Job job = tiny_job(folder);
  job.max_steps = 4;
  job.checkpoint.directory = folder / "run";
  LengthWatcher first;
  train_job(job, first);
  EXPECT_TRUE(first.notes.empty());
  LengthWatcher done;
  train_job(job, done);
  EXPECT_TRUE(done.notes.empty()) << done.notes[0];
  job.max_steps = 6;
  LengthWatcher longer;
  train_job(job, longer);
  ASSERT_EQ(longer.notes.size(), 1u);
  EXPECT_EQ(longer.notes[0],
            "the learning rate was cosine from 0.0003 to 3e-05 at step 4, and from here on it is cosine from 0.0003 to "
            "3e-05 at step 6; set scheduler.steps=4 to keep the old one");
  EXPECT_EQ(longer.steps.back().learning_rate, learning_rate_at(job.scheduler, 3e-4, 6, 6));
}

// A run that follows the advice in the line about another schedule has the rates of the first run.
TEST(RunLength, AResumedRunMayKeepItsSchedule) {
  const TempFolder folder;
  Job job = tiny_job(folder);
  job.max_steps = 4;
  job.scheduler.warmup_ratio = 0.5;
  job.checkpoint.directory = folder / "run";
  train_until(job, 3);
  job.max_steps = 6;
  job.scheduler.steps = 4;
  LengthWatcher kept;
  train_job(job, kept);
  EXPECT_TRUE(kept.notes.empty()) << kept.notes[0];
  ASSERT_EQ(kept.steps.size(), 3u);
  for (const TrainProgress& each : kept.steps)
    EXPECT_EQ(each.learning_rate, learning_rate_at({.warmup_steps = 2}, 3e-4, each.step, 4)) << each.step;
}

// The steps alone do not bring a schedule back whose rate was another.
TEST(RunLength, AResumedRunWithAnotherRateIsNotAdvisedToKeepItsSchedule) {
  const TempFolder folder;
  Job job = tiny_job(folder);
  job.max_steps = 4;
  job.checkpoint.directory = folder / "run";
  train_until(job, 2);
  job.max_steps = 6;
  job.optimizer.learning_rate = 1e-4;
  LengthWatcher watcher;
  train_job(job, watcher);
  ASSERT_EQ(watcher.notes.size(), 1u);
  EXPECT_THAT(watcher.notes[0], ::testing::EndsWith("from 0.0001 to 1e-05 at step 6"));
}

TEST(RunLength, AProfileThatBeginsAfterTheLastEpochIsRefusedBeforeTheFirstStep) {
  const TempFolder folder;
  Job job = tiny_job(folder);  // 2 steps an epoch
  job.max_steps.reset();
  job.max_epochs = 1;
  Watcher watcher;
  ProfileOptions profile;
  profile.file = folder / "profile.json";
  profile.first_step = 3;
  try {
    train_job(job, watcher, profile);
    FAIL() << "it ran";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("begins with step 3, but the steps of all epochs are 2"));
  }
  EXPECT_TRUE(watcher.steps.empty());
}

}  // namespace
}  // namespace plimsoll
