#include "plimsoll/train_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "plimsoll/bytes.h"
#include "thresholds.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<nlohmann::json> json_lines(const std::filesystem::path& file) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(get_file(file));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

class TrainJobTest : public ::testing::Test {
 protected:
  TempFolder folder_;
};

TEST_F(TrainJobTest, LearnsInsideThePlan) {
  Job job = tiny_job(folder_);
  job.max_steps = 30;
  job.optimizer.learning_rate = 1e-2;
  Watcher watcher;
  const TrainReport report = train_job(job, watcher);
  EXPECT_TRUE(report.fits);
  EXPECT_FALSE(report.stopped);
  EXPECT_EQ(report.steps, 30);
  ASSERT_EQ(report.losses.size(), 30u);
  expect_below("first loss, distance from log 320", std::abs(report.losses.front() - std::log(320.0)), 0.5);
  expect_above("fall of the loss", report.losses.front() - report.losses.back(), 1);
  EXPECT_EQ(watcher.plans, 1);
  for (const TrainProgress& progress : watcher.steps)
    EXPECT_DOUBLE_EQ(progress.tokens_per_second * progress.step_seconds, 4 * 16) << progress.step;
  EXPECT_LE(report.measured_peak_bytes, report.planned_peak_bytes);
  EXPECT_LE(report.planned_peak_bytes, *job.budget.device);
  EXPECT_EQ(report.planned.total(), report.planned_peak_bytes);
  EXPECT_EQ(report.measured.total(), report.measured_peak_bytes);
  EXPECT_GT(report.step_seconds, 0);
  EXPECT_GT(report.tokens_per_second, 0);
  EXPECT_GT(report.resident_bytes, report.measured_peak_bytes);
}

TEST_F(TrainJobTest, FollowsTheSchedule) {
  Job job = tiny_job(folder_);
  job.scheduler = {.name = "linear", .warmup_steps = 2, .min_lr_ratio = 0.5};
  job.optimizer.learning_rate = 8e-3;
  Watcher watcher;
  train_job(job, watcher);
  std::vector<double> rates;
  for (const TrainProgress& progress : watcher.steps) rates.push_back(progress.learning_rate);
  EXPECT_THAT(rates, ::testing::Pointwise(::testing::DoubleEq(), {4e-3, 8e-3, 7e-3, 6e-3, 5e-3, 4e-3}));
}

TEST_F(TrainJobTest, AccumulatesByTheEpochOfTheStepsFirstWindow) {
  Job job = tiny_job(folder_, /*windows=*/10);
  job.micro_batch_size = 2;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 3}, {1, 2}, {3, 1}};
  job.batch_size = 6;
  job.max_steps = 9;
  job.log.metrics_file = folder_ / "metrics.jsonl";
  Watcher watcher;
  train_job(job, watcher);
  // Windows 0-5 and 6-11 in epoch 0; then four at a time from 12 to 27 and 28-31, which begins in epoch 2; then two.
  std::vector<int64_t> epochs, windows;
  for (const nlohmann::json& line : json_lines(job.log.metrics_file)) {
    epochs.push_back(line["epoch"]);
    windows.push_back(line["tokens"].get<int64_t>() / 16);
  }
  EXPECT_THAT(windows, ElementsAre(6, 12, 16, 20, 24, 28, 32, 34, 36));
  EXPECT_THAT(epochs, ElementsAre(0, 0, 1, 1, 2, 2, 2, 3, 3));
}

TEST_F(TrainJobTest, StopsAfterTheEpochsAskedFor) {
  Job job = tiny_job(folder_, /*windows=*/8);
  job.max_epochs = 2;
  job.max_steps = 100;
  const TrainReport report = train(job);
  EXPECT_EQ(report.steps, 4);
  EXPECT_FALSE(report.stopped);
}

TEST_F(TrainJobTest, TheMicroBatchDoesNotChangeTheLosses) {
  Job job = tiny_job(folder_);
  job.gradient_checkpointing = Choice::off;
  const TrainReport two = train(job);
  job.micro_batch_size = 4;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  const TrainReport four = train(job);
  expect_below("largest difference of losses", largest_difference(two.losses, four.losses), 1e-4);
  EXPECT_LT(two.planned_peak_bytes, four.planned_peak_bytes);
}

TEST_F(TrainJobTest, ASmallerLastMicroBatchDoesNotChangeTheLosses) {
  Job job = tiny_job(folder_, /*windows=*/8, /*validation=*/3);
  job.batch_size = 5;
  job.micro_batch_size = 5;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  const TrainReport whole = train(job);
  job.micro_batch_size = 3;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 2}};
  job.log.metrics_file = folder_ / "metrics.jsonl";
  const TrainReport ragged = train(job);
  expect_below("largest difference of losses", largest_difference(ragged.losses, whole.losses), 1e-4);
  expect_below("difference of evaluations", std::abs(ragged.last_evaluation.value() - whole.last_evaluation.value()),
               1e-4);
  EXPECT_LE(ragged.measured_peak_bytes, ragged.planned_peak_bytes);
  int64_t steps = 0;
  for (const nlohmann::json& line : json_lines(job.log.metrics_file))
    if (line.contains("tokens")) {
      EXPECT_EQ(line["tokens"], ++steps * 5 * 16);
    }
  EXPECT_EQ(steps, 6);
}

TEST_F(TrainJobTest, AnOpenPrecisionIsTrainedAsItWasChosen) {
  Job job = tiny_job(folder_);
  job.precision = Precision::automatic;
  job.checkpoint.directory = folder_ / "run";
  job.max_steps = 3;
  const TrainReport open = train(job);
  const Precision chosen = open.job.settings.precision;
  EXPECT_TRUE(chosen == Precision::fp32_true || chosen == Precision::bf16_mixed);
  job.max_steps = 4;
  EXPECT_EQ(train(job).resumed_step, 3);
  job.precision = chosen == Precision::fp32_true ? Precision::bf16_mixed : Precision::fp32_true;
  EXPECT_THAT(user_error_of([&] { train(job); }), HasSubstr("precision is "));
  job.checkpoint = {};
  job.precision = chosen;
  job.max_steps = 3;
  EXPECT_EQ(train(job).losses, open.losses);
}

TEST_F(TrainJobTest, DoesNotFitIsAnAnswer) {
  Job job = tiny_job(folder_);
  job.budget.device = 64 * KiB;
  job.checkpoint.directory = folder_ / "run";
  Watcher watcher;
  const TrainReport report = train_job(job, watcher);
  EXPECT_FALSE(report.fits);
  EXPECT_EQ(report.steps, 0);
  EXPECT_EQ(watcher.plans, 1);
  EXPECT_THAT(watcher.steps, IsEmpty());
  EXPECT_GT(report.job.minimum_budget_bytes, 64 * KiB);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(TrainJobTest, RefusesToTrainOnADeviceThatItOnlyPlansFor) {
  Job job = tiny_job(folder_);
  job.device = "mps";
  EXPECT_THAT(user_error_of([&] { train(job); }), HasSubstr("device 'mps' cannot be used"));
}

TEST_F(TrainJobTest, ChecksAVocabularyOfItsOwnAgainstTheTokenizersFile) {
  Job job = tiny_job(folder_);
  job.data.tokenizer = "gpt2";
  job.data.tokenizer_file = put_file(folder_ / "ranks", rank_file({"th", "the"}));
  job.model.decoder.vocab_size = 200;
  EXPECT_THAT(user_error_of([&] { train(job); }), HasSubstr("model.vocab_size is 200"));
}

TEST_F(TrainJobTest, EvaluatesEveryFewStepsAndAtTheEnd) {
  Job job = tiny_job(folder_, 8, /*validation=*/3);
  job.max_steps = 5;
  job.eval_every_n_steps = 2;
  job.log.metrics_file = folder_ / "metrics.jsonl";
  Watcher watcher;
  const TrainReport report = train_job(job, watcher);
  std::vector<int64_t> steps;
  for (const auto& [step, loss] : watcher.evaluations) steps.push_back(step);
  EXPECT_THAT(steps, ElementsAre(2, 4, 5));
  EXPECT_EQ(report.first_evaluation, watcher.evaluations.front().second);
  EXPECT_EQ(report.last_evaluation, watcher.evaluations.back().second);
  int64_t lines = 0;
  for (const nlohmann::json& line : json_lines(job.log.metrics_file)) lines += line.contains("validation_loss");
  EXPECT_EQ(lines, 3);
}

TEST_F(TrainJobTest, EvaluatesOnceWhereTheLastStepWasEvaluated) {
  Job job = tiny_job(folder_, 8, /*validation=*/3);
  job.max_steps = 4;
  job.eval_every_n_steps = 2;
  Watcher watcher;
  train_job(job, watcher);
  EXPECT_EQ(watcher.evaluations.size(), 2u);
}

TEST_F(TrainJobTest, TheEvaluationIsOverWindowsWhateverTheMicroBatch) {
  Job job = tiny_job(folder_, 8, /*validation=*/5);
  job.optimizer.learning_rate = 0;
  job.max_steps = 1;
  std::vector<double> losses;
  for (int64_t micro : {1, 2, 4}) {
    job.micro_batch_size = micro;
    job.gradient_accumulation_steps = AccumulationSchedule{{0, 4 / micro}};
    losses.push_back(train(job).last_evaluation.value());
  }
  expect_below("difference of evaluations", std::max(std::abs(losses[1] - losses[0]), std::abs(losses[2] - losses[0])),
               1e-4);
}

TEST_F(TrainJobTest, EvaluationDoesNotChangeTheTraining) {
  Job job = tiny_job(folder_, 8, /*validation=*/3);
  job.model.decoder.dropout = 0.2;
  const TrainReport without = train(job);
  job.eval_every_n_steps = 1;
  EXPECT_EQ(train(job).losses, without.losses);
}

TEST_F(TrainJobTest, HasNoEvaluationWithoutValidationText) {
  Job job = tiny_job(folder_);
  job.eval_every_n_steps = 1;
  EXPECT_EQ(train(job).last_evaluation, std::nullopt);
}

TEST_F(TrainJobTest, LogsTheStepsAskedFor) {
  Job job = tiny_job(folder_);
  job.log = {.metrics_file = folder_ / "metrics.jsonl", .every_n_steps = 2};
  Watcher watcher;
  train_job(job, watcher);
  const auto lines = json_lines(job.log.metrics_file);
  ASSERT_EQ(lines.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const TrainProgress& progress = watcher.steps[2 * i + 1];
    EXPECT_EQ(lines[i]["step"], progress.step);
    EXPECT_EQ(lines[i]["loss"], progress.loss);
    EXPECT_EQ(lines[i]["gradient_norm"], progress.gradient_norm);
    EXPECT_EQ(lines[i]["learning_rate"], progress.learning_rate);
    EXPECT_EQ(lines[i]["tokens"], (2 * static_cast<int64_t>(i) + 2) * 4 * 16);
    EXPECT_GT(lines[i]["tokens_per_second"], 0);
    EXPECT_EQ(lines[i]["memory_bytes"], progress.memory_used);
  }
}

TEST_F(TrainJobTest, ARequestToStopBeforeTheTextIsRead) {
  Job job = tiny_job(folder_);
  job.checkpoint.directory = folder_ / "run";
  struct : TrainObserver {
    void planned(const PlannedJob&) override { request_stop(); }
  } stops;
  const TrainReport report = train_job(job, stops);
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(report.steps, 0);
  // Folders that were made for it and hold nothing are gone again.
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache"));
  EXPECT_EQ(train(job).steps, 6);  // it held for one run
}

TEST_F(TrainJobTest, ARequestToStopEndsThePlanning) {
  const Job job = tiny_job(folder_);
  request_stop();
  Watcher watcher;
  const TrainReport report = train_job(job, watcher);
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(watcher.plans, 0);
  int schedules = 0;
  struct Enough {};
  const SearchOptions search{.on_schedule = [&] {
    if (++schedules == 2) throw Enough();
  }};
  EXPECT_THROW(plan_job(job, target_of(job), search), Enough);
}

TEST_F(TrainJobTest, TheLossIsReportedWithItsBaseline) {
  const TrainReport report = train(tiny_job(folder_, /*windows=*/8, /*validation=*/4));
  ASSERT_EQ(report.baselines.size(), 1u);
  EXPECT_EQ(report.baselines[0].metric, "evaluation_loss");
  EXPECT_EQ(report.baselines[0].name, "by the tokens' frequencies");
  EXPECT_THAT(report.not_written, IsEmpty());
}

TEST_F(TrainJobTest, AStoppedRunComputesNoBaselines) {
  Job job = tiny_job(folder_, /*windows=*/8, /*validation=*/4);
  job.eval_every_n_steps = 1;
  Watcher watcher;
  watcher.after_step = [](const TrainProgress& progress) {
    if (progress.step == 2) request_stop();
  };
  const TrainReport report = train_job(job, watcher);
  EXPECT_TRUE(report.stopped);
  EXPECT_EQ(report.steps, 2);
  EXPECT_TRUE(report.last_evaluation.has_value());  // of step 1
  EXPECT_THAT(report.baselines, IsEmpty());
}

// PlannedJob::step_seconds predicts a step of the first epoch (4 micro batches). The report's prediction is the median
// over the timed steps (1 micro batch).
TEST_F(TrainJobTest, PredictsStepsByTheirNumberOfMicroBatches) {
  Job job = tiny_job(folder_);
  job.batch_size = 8;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 4}, {1, 1}};
  job.max_steps = 8;
  TrainObserver nobody;
  const TrainReport report = train_job(job, nobody);
  const StepTime& time = report.job.plan.time;
  EXPECT_EQ(report.predicted_step_seconds, time.step(1));
  EXPECT_EQ(report.job.step_seconds, time.step(4));
  EXPECT_NE(time.step(1), time.step(4));
}

}  // namespace
}  // namespace plimsoll
