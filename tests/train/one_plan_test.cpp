// Tests that a step is recorded once and searched once, and that the shown plan is the plan that runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/planner.h"
#include "plimsoll/training.h"
#include "run/record_step.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

struct Counts {
  int64_t recordings = recordings_made(), searches = searches_made();
};

TEST(OnePlan, AStepIsRecordedAndSearchedOnceBeforeItRuns) {
  const TempFolder folder;
  const Job job = tiny_job(folder);
  const Counts before;
  const TrainReport report = train(job);
  const Counts after;
  ASSERT_EQ(report.steps, job.max_steps);
  EXPECT_EQ(after.recordings - before.recordings, 1);
  // Once more if kernels without a rule took scratch when they were measured during planning.
  EXPECT_LE(after.searches - before.searches, 2);
}

TEST(OnePlan, OfAnOpenMicroBatchEachSizeIsRecordedAndSearchedAtMostOnce) {
  const TempFolder folder;
  Job job = tiny_job(folder);
  job.micro_batch_size.reset();
  job.gradient_accumulation_steps.reset();
  const auto sizes = static_cast<int64_t>(candidate_micro_batches(*job.batch_size).size());
  const Counts before;
  ASSERT_EQ(train(job).steps, job.max_steps);
  const Counts after;
  EXPECT_LE(after.recordings - before.recordings, sizes);
  EXPECT_LE(after.searches - before.searches, 2 * sizes);
}

TEST(OnePlan, ATrainingRunsWhatWasPlannedForIt) {
  const TempFolder folder;
  const PlannedJob planned = plan_job(tiny_job(folder));
  const Job job = resolved_job(tiny_job(folder), planned);
  const Step step = step_of(job, planned.settings.micro_batch());
  const Counts before;
  Training training(step, options_of(job), {planned.recorded, planned.plan, planned.workspace});
  training.start();
  const Counts after;
  EXPECT_EQ(after.recordings, before.recordings);
  EXPECT_EQ(after.searches, before.searches);
  EXPECT_EQ(plan_hash(training.plan()), plan_hash(planned.plan));
  EXPECT_EQ(training.plan_change(), "");
}

TEST(OnePlan, TheHashTellsSchedulesOffsetsAndBudgetsApart) {
  const TempFolder folder;
  const Plan plan = plan_job(tiny_job(folder)).plan;
  const std::string hash = plan_hash(plan);
  EXPECT_THAT(hash, ::testing::MatchesRegex("[0-9a-f]{16}"));
  Plan other = plan;
  other.reasons.clear();
  other.plan_seconds += 1;
  EXPECT_EQ(plan_hash(other), hash);
  other = plan;
  for (int64_t& offset : other.offsets)
    if (offset > 0) {
      offset += 64;
      break;
    }
  EXPECT_NE(plan_hash(other), hash);
  other = plan;
  other.budget.device = other.budget.device_bytes() + 1;
  EXPECT_NE(plan_hash(other), hash);
  other = plan;
  std::swap(other.trace.ops.front(), other.trace.ops.back());
  EXPECT_NE(plan_hash(other), hash);
}

// The systems' small jobs on fake data: the output of `plan --json` and `train --json`.
class SystemsPlan : public ::testing::TestWithParam<const char*> {};

TEST_P(SystemsPlan, IsTheOneThatRuns) {
  const TempFolder folder;
  const Job job = read_job(std::string(PLIMSOLL_SOURCE_DIR "/examples/") + GetParam(),
                           {"data.type=synthetic", "max_steps=1", "eval_every_n_steps=0", "threads=1",
                            "checkpoint.directory=" + (folder / "run").string(), "log.metrics_file=\"\""});
  const Counts before;
  const PlannedJob planned = plan_job(job);
  const Counts between;
  const TrainReport report = train(job);
  const Counts after;
  EXPECT_EQ(plan_hash(report.job.plan), plan_hash(planned.plan));
  // The training plans as often as the plan alone does.
  EXPECT_EQ(after.recordings - between.recordings, between.recordings - before.recordings);
  EXPECT_EQ(after.searches - between.searches, between.searches - before.searches);
}

INSTANTIATE_TEST_SUITE_P(All, SystemsPlan,
                         ::testing::Values("fmri-autoencoder/tiny.yaml", "gesture-ssm/tiny.yaml",
                                           "prompt-segmentation/tiny.yaml", "video-llm/tiny.yaml",
                                           "small-lm/quickstart.yaml"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace_if(
                               name, [](unsigned char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

}  // namespace
}  // namespace plimsoll
