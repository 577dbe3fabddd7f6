// Tests that a stopped and resumed run equals one that never stopped, bit for bit.
#include "train/run_checkpoints.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <sstream>

#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "refusals.h"
#include "thresholds.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ResumeTest : public ::testing::TestWithParam<Precision> {
 protected:
  /// Dropout, a schedule of accumulation that changes within the job, and an evaluation between.
  Job job_in(const std::string& directory) const {
    Job job = tiny_job(folder_, /*windows=*/8, /*validation=*/2);
    job.model.decoder.dropout = 0.2;
    job.gradient_accumulation_steps = AccumulationSchedule{{0, 2}, {1, 1}};
    job.scheduler.warmup_steps = 2;
    job.optimizer.learning_rate = 5e-3;
    job.checkpoint.directory = folder_ / directory;
    job.log.metrics_file = folder_ / (directory + ".jsonl");
    return job;
  }

  std::filesystem::path checkpoint(const std::string& directory, int64_t step) const {
    return folder_ / directory / ("step-0000000" + std::to_string(step) + ".safetensors");
  }

  TempFolder folder_;
};

TEST_P(ResumeTest, IsBitExact) {
  Job straight = job_in("straight"), halved = job_in("halved");
  straight.precision = halved.precision = GetParam();
  const TrainReport whole = train(straight);
  ASSERT_EQ(whole.losses.size(), 6u);
  for (double loss : whole.losses) EXPECT_TRUE(std::isfinite(loss));

  const TrainReport first = train_until(halved, 3);
  EXPECT_TRUE(first.stopped);
  EXPECT_EQ(first.steps, 3);
  Watcher watcher;
  const TrainReport second = train_job(halved, watcher);
  EXPECT_THAT(watcher.resumed_from, ElementsAre(std::pair(checkpoint("halved", 3).string(), int64_t{3})));
  EXPECT_EQ(second.resumed_step, 3);
  EXPECT_EQ(second.steps, 6);

  std::vector<double> losses = first.losses;
  losses.insert(losses.end(), second.losses.begin(), second.losses.end());
  EXPECT_EQ(losses, whole.losses);
  EXPECT_EQ(second.last_evaluation, whole.last_evaluation);
  EXPECT_EQ(second.steps_skipped, whole.steps_skipped);
  // Parameters, optimizer state, counters and position in the data: the files are the same, byte for byte.
  const std::string file = get_file(checkpoint("straight", 6));
  EXPECT_FALSE(file.empty());
  EXPECT_TRUE(get_file(checkpoint("halved", 6)) == file);
}

INSTANTIATE_TEST_SUITE_P(Precisions, ResumeTest,
                         ::testing::Values(Precision::fp32_true, Precision::bf16_mixed, Precision::fp16_mixed,
                                           Precision::bf16_true),
                         [](const auto& info) {
                           std::string name(name_of(info.param));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Random rounding continues as if the run had not stopped. The model is wide enough for packed state.
TEST_F(ResumeTest, EveryOptimizerIsBitExact) {
  for (const char* name : {"adamw", "lion", "sgd", "adafactor", "muon"}) {
    for (const StateDtype dtype : {StateDtype::bits8, StateDtype::bits4}) {
      const std::string folder = std::string(name) + std::string(name_of(dtype));
      Job straight = job_in(folder + "-straight"), halved = job_in(folder + "-halved");
      for (Job* job : {&straight, &halved}) {
        job->model.decoder.hidden_size = 64;
        job->precision = Precision::bf16_true;
        job->optimizer.name = name;
        job->optimizer.state_dtype = dtype;
        job->max_steps = 4;
      }
      const TrainReport whole = train(straight);
      std::vector<double> losses = train_until(halved, 2).losses;
      const TrainReport rest = train(halved);
      losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
      EXPECT_EQ(losses, whole.losses) << folder;
      EXPECT_TRUE(get_file(checkpoint(folder + "-halved", 4)) == get_file(checkpoint(folder + "-straight", 4)))
          << folder;
    }
  }
}

TEST_F(ResumeTest, StateInHostMemoryIsSavedAndLoadedAsAnyOther) {
  Job straight = job_in("straight"), halved = job_in("halved");
  const TrainReport whole = train(straight);
  halved.budget.host = GiB;
  halved.budget.device = whole.job.plan.peak_bytes * 3 / 4;
  std::vector<double> losses = train_until(halved, 3).losses;
  const TrainReport rest = train(halved);
  EXPECT_GT(rest.job.plan.offloaded_state_bytes, 0);
  losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
  EXPECT_EQ(losses, whole.losses);
  EXPECT_TRUE(get_file(checkpoint("halved", 6)) == get_file(checkpoint("straight", 6)));
}

TEST_F(ResumeTest, ASmallerLastMicroBatchGoesOn) {
  Job straight = job_in("straight"), halved = job_in("halved");
  for (Job* job : {&straight, &halved}) {
    job->batch_size = 5;
    job->gradient_accumulation_steps = AccumulationSchedule{{0, 3}};  // 2, 2 and 1
  }
  const TrainReport whole = train(straight);
  std::vector<double> losses = train_until(halved, 3).losses;
  const TrainReport rest = train(halved);
  losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
  EXPECT_EQ(losses, whole.losses);
  EXPECT_TRUE(get_file(checkpoint("halved", 6)) == get_file(checkpoint("straight", 6)));
}

TEST_F(ResumeTest, TheLossScaleAndTheSkippedStepsGoOn) {
  Job job = job_in("run");
  job.precision = Precision::fp16_mixed;
  job.optimizer.learning_rate = 1e6;  // every gradient overflows sooner or later
  job.max_grad_norm = 0;
  job.max_steps = 8;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 2}};
  Job straight = job;
  straight.checkpoint.directory = folder_ / "straight";
  const TrainReport whole = train(straight);
  expect_above("skipped steps", static_cast<double>(whole.steps_skipped), 0);
  train_until(job, 5);
  Watcher watcher;
  const TrainReport rest = train_job(job, watcher);
  EXPECT_EQ(rest.steps_skipped, whole.steps_skipped);
  EXPECT_LT(watcher.steps.back().loss_scale, 65536);
  EXPECT_TRUE(get_file(checkpoint("run", 8)) == get_file(checkpoint("straight", 8)));
}

TEST_F(ResumeTest, AJobThatIsDoneStaysDone) {
  const Job job = job_in("run");
  train(job);
  const std::string file = get_file(checkpoint("run", 6)), metrics = get_file(job.log.metrics_file);
  Watcher watcher;
  const TrainReport report = train_job(job, watcher);
  EXPECT_EQ(report.steps, 6);
  EXPECT_EQ(report.resumed_step, 6);
  EXPECT_THAT(report.losses, ::testing::IsEmpty());
  EXPECT_THAT(watcher.saves, ::testing::IsEmpty());
  EXPECT_TRUE(get_file(checkpoint("run", 6)) == file);
  EXPECT_EQ(get_file(job.log.metrics_file), metrics);
}

TEST_F(ResumeTest, SavesEveryFewStepsAndAtTheEndAndKeepsTheNewest) {
  Job job = job_in("run");
  job.checkpoint.every_n_steps = 2;
  job.checkpoint.keep = 2;
  job.max_steps = 7;
  Watcher watcher;
  train_job(job, watcher);
  EXPECT_THAT(watcher.saves, ElementsAre(2, 4, 6, 7));
  EXPECT_FALSE(std::filesystem::exists(checkpoint("run", 4)));
  EXPECT_TRUE(std::filesystem::exists(checkpoint("run", 6)));
  EXPECT_TRUE(std::filesystem::exists(checkpoint("run", 7)));
}

TEST_F(ResumeTest, TheMetricsGoOnWithoutAGapOrADouble) {
  const Job job = job_in("run");
  Job ahead = job;
  ahead.checkpoint.every_n_steps = 2;
  train_until(ahead, 5);
  // The state after a crash in step 6: the last checkpoint is that of step 4, the metrics have step 5.
  std::filesystem::remove(checkpoint("run", 5));
  train(job);
  std::vector<int64_t> steps;
  std::istringstream text(get_file(job.log.metrics_file));
  for (std::string line; std::getline(text, line);)
    if (const auto json = nlohmann::json::parse(line); json.contains("loss")) steps.push_back(json["step"]);
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(ResumeTest, ANewestThatIsSpoiltIsNotPassedOver) {
  Job job = job_in("run");
  job.checkpoint.every_n_steps = 2;
  train_until(job, 4);
  std::string spoilt = get_file(checkpoint("run", 4));
  spoilt[spoilt.size() - 3] ^= 1;
  put_file(checkpoint("run", 4), spoilt);
  EXPECT_THAT(user_error_of([&] { train(job); }), AllOf(HasSubstr(checkpoint("run", 4).string()), HasSubstr("corrupt"),
                                                        HasSubstr("resume from " + checkpoint("run", 2).string())));
  std::filesystem::remove(checkpoint("run", 4));
  EXPECT_EQ(train(job).resumed_step, 2);
}

TEST_F(ResumeTest, NamesWhatIsAnotherJobs) {
  Job job = job_in("run");
  job.max_steps = 1;
  train(job);
  const auto refusal = [&](const auto& change) {
    Job other = job;
    change(other);
    return user_error_of([&] { train(other); });
  };
  EXPECT_THAT(
      refusal([](Job& other) { other.optimizer.name = "sgd"; }),
      AllOf(HasSubstr("optimizer.name is sgd in the job, adamw in the checkpoint"), HasSubstr("optimizer.momentum.")));
  EXPECT_THAT(
      refusal([](Job& other) { other.precision = Precision::bf16_true; }),
      AllOf(HasSubstr("precision is bf16-true"), HasSubstr("bfloat16 [320, 32] in the job, float32 [320, 32]")));
  EXPECT_THAT(refusal([](Job& other) { other.model.decoder.hidden_size = 64; }),
              HasSubstr("'embedding' is float32 [320, 64] in the job, float32 [320, 32] in the checkpoint"));
  EXPECT_THAT(refusal([](Job& other) { other.model.decoder.num_heads = 4; }), HasSubstr("model.num_heads is 4"));
  EXPECT_THAT(refusal([](Job& other) { other.seed = 1; }), HasSubstr("seed was 0 and is 1"));
}

TEST_F(ResumeTest, WhatMayChangeMayChange) {
  Job job = job_in("run");
  job.max_steps = 2;
  train(job);
  job.max_steps = 3;
  job.model.decoder.dropout = 0;
  job.optimizer.learning_rate = 1e-4;
  job.micro_batch_size = 4;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  job.gradient_checkpointing = Choice::on;
  const TrainReport report = train(job);
  EXPECT_EQ(report.resumed_step, 2);
  EXPECT_EQ(report.steps, 3);
}

TEST_F(ResumeTest, GoesOnElsewhereFromACheckpointThatIsNamed) {
  Job job = job_in("run");
  const TrainReport whole = train(job);
  job.checkpoint.keep = 0;
  Job branch = job_in("branch");
  train_until(branch, 4);
  branch.checkpoint.resume = checkpoint("branch", 4).string();
  branch.checkpoint.directory = folder_ / "second";
  const TrainReport rest = train(branch);
  EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + 4, whole.losses.end()));
}

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
