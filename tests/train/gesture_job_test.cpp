// Tests gestures from their files to an accuracy, inside the plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/train_job.h"
#include "thresholds.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

/// Returns waves of two frequencies, each with its own phase.
std::string waves(int64_t count, int64_t length, int64_t phase) {
  std::string text = "@classLabel true slow fast\n@dimensions 2\n@data\n";
  for (int64_t i = 0; i < count; ++i) {
    const double speed = i % 2 ? 0.9 : 0.3;
    for (int channel = 0; channel < 2; ++channel) {
      for (int64_t t = 0; t < length; ++t)
        text += (t ? "," : "") + std::to_string(std::sin(speed * double(t) + double(7 * i + phase) + channel));
      text += ":";
    }
    text += i % 2 ? "fast\n" : "slow\n";
  }
  return text;
}

Job gesture_job(const TempFolder& folder) {
  Job job;
  job.model.type = "gesture_ssm";
  GestureSsmConfig& model = job.model.gesture;
  model.channels = model.num_classes = 2;
  model.hidden_dim = 16;
  model.num_layers = 2;
  model.d_state = 8;
  model.head_dim = 8;
  model.chunk_size = 8;
  model.share_weights = "bidirectional";
  model.pooling_scales = {2};
  job.data.type = "series";
  job.data.files = {put_file(folder / "train.ts", waves(12, 24, 0))};
  job.data.series.validation_files = {put_file(folder / "test.ts", waves(6, 24, 3))};
  job.data.series.length = 24;
  job.data.series.train_ratio_of_vectors = 0.75;
  job.data.series.order = "hilbert";
  job.batch_size = 4;
  job.micro_batch_size = 4;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  job.optimizer.learning_rate = 5e-3;
  job.budget.device = int64_t{1} << 28;
  job.max_steps = 120;
  job.seed = test_seed();
  job.threads = 1;
  return job;
}

TEST(GestureJob, LearnsInsideThePlanAndKnowsHowWell) {
  const TempFolder folder;
  const TrainReport report = train(gesture_job(folder));
  ASSERT_TRUE(report.fits);
  expect_below("first loss, distance from log 2", std::abs(report.losses.front() - std::log(2.0)), 0.3);
  expect_below("loss, last of first", report.losses.back() / report.losses.front(), 0.5);
  EXPECT_EQ(report.measured_peak_bytes, report.planned_peak_bytes);
  // Six samples in batches of four: two of the last one do not count.
  ASSERT_EQ(report.metrics.size(), 1u);
  EXPECT_EQ(report.metrics[0].first, "accuracy");
  expect_above("accuracy", report.metrics[0].second, 4.5 / 6);
  EXPECT_NEAR(report.metrics[0].second * 6, std::round(report.metrics[0].second * 6), 1e-9);
  ASSERT_EQ(report.baselines.size(), 1u);
  EXPECT_EQ(report.baselines[0].name, "most frequent class");
  EXPECT_EQ(report.baselines[0].value, 0.5);
}

TEST(GestureJob, LossesDoNotDependOnTheBudget) {
  const TempFolder folder;
  for (const char* share : {"bidirectional", "true"}) {
    Job job = gesture_job(folder);
    job.model.gesture.share_weights = share;
    job.max_steps = 4;
    const TrainReport free = train(job);
    job.budget.device = plan_job(job).minimum_budget_bytes;
    const TrainReport tight = train(job);
    EXPECT_LT(tight.planned_peak_bytes, free.planned_peak_bytes) << share;
    EXPECT_EQ(tight.losses, free.losses) << share;
    job.budget.device = int64_t{1} << 28;
    job.gradient_checkpointing = Choice::on;
    const TrainReport checkpointed = train(job);
    EXPECT_LT(checkpointed.planned_peak_bytes, free.planned_peak_bytes) << share;
    EXPECT_EQ(checkpointed.losses, free.losses) << share;
  }
}

TEST(GestureJob, TrainsInEveryPrecision) {
  const TempFolder folder;
  for (const Precision precision : {Precision::bf16_mixed, Precision::bf16_true}) {
    Job job = gesture_job(folder);
    job.precision = precision;
    const TrainReport report = train(job);
    expect_below(fmt::format("loss, last of first, {}", name_of(precision)),
                 report.losses.back() / report.losses.front(), 1);
    EXPECT_EQ(report.measured_peak_bytes, report.planned_peak_bytes) << name_of(precision);
  }
}

}  // namespace
}  // namespace plimsoll
