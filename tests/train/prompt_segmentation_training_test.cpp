// Tests training of prompt segmentation, from files to metric.
#include <gmock/gmock.h>

#include "checkpoint/checkpoint.h"
#include "files/nifti_files.h"
#include "plimsoll/error.h"
#include "plimsoll/train_job.h"
#include "thresholds.h"
#include "train/tiny_job.h"
#include "train/tiny_systems.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

Job box_job(const TempFolder& folder) {
  Job job;
  job.model = tiny_prompt_segmentation();
  PromptSegmentationConfig& model = job.model.segmentation;
  model.prompt_length = 40;
  model.image_tokens = 4;
  model.loss.text = 0.01;
  job.data = box_slices(folder);
  job.batch_size = 8;
  job.micro_batch_size = 4;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 2}};
  job.budget.device = int64_t{1} << 30;
  job.optimizer.learning_rate = 4e-3;
  job.max_steps = 400;
  job.seed = test_seed();
  job.threads = 1;
  return job;
}

TEST(PromptSegmentationTraining, LearnsInsideThePlan) {
  const TempFolder folder;
  const TrainReport report = train(box_job(folder));
  EXPECT_TRUE(report.fits);
  ASSERT_EQ(report.losses.size(), 400u);
  expect_below("loss, last of first", report.losses.back() / report.losses.front(), 0.6);
  EXPECT_LE(report.measured_peak_bytes, report.planned_peak_bytes);
  EXPECT_GE(static_cast<double>(report.measured_peak_bytes), 0.995 * static_cast<double>(report.planned_peak_bytes));
  ASSERT_EQ(report.metrics.size(), 1u);
  EXPECT_EQ(report.metrics[0].first, "dice");
  expect_above("dice", report.metrics[0].second, 0.5);
}

// Checkpoints of revision 1 name no revision.
TEST(PromptSegmentationTraining, ACheckpointOfAnEarlierRevisionIsRefused) {
  const TempFolder folder;
  Job job = box_job(folder);
  job.max_steps = 2;
  job.checkpoint.directory = folder / "checkpoints";
  train(job);
  const std::filesystem::path newest = folder / "checkpoints/step-00000002.safetensors";
  CheckpointInfo info = describe_checkpoint(newest);
  EXPECT_EQ(info.origin["model.revision"], "2");  // without the explanation, whose words may change
  ASSERT_EQ(info.origin.erase("model.revision"), 1u);
  write_checkpoint(newest, info, {});
  job.max_steps = 3;
  try {
    train(job);
    FAIL() << "the checkpoint was accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("step-00000002.safetensors: the model prompt_segmentation of this checkpoint is of "
                          "revision 1; this version of Plimsoll has revision 2 (biases and no norm"));
    EXPECT_THAT(error.what(), HasSubstr("Nothing was loaded."));
  }
}

TEST(PromptSegmentationTraining, TheMicroBatchDoesNotChangeTheLosses) {
  const TempFolder folder;
  Job job = box_job(folder);
  job.max_steps = 3;
  const TrainReport parts = train(job);
  job.micro_batch_size = 8;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  const TrainReport whole = train(job);
  expect_below("largest difference of losses", largest_difference(parts.losses, whole.losses), 1e-4);
  ASSERT_EQ(parts.metrics.size(), whole.metrics.size());
  expect_below("difference of dice", std::abs(parts.metrics[0].second - whole.metrics[0].second), 1e-2);
}

TEST(PromptSegmentationTraining, AFrozenQuantizedAdaptedReaderStaysInsideThePlan) {
  const TempFolder folder;
  Job job = box_job(folder);
  job.max_steps = 4;
  job.precision = Precision::bf16_mixed;
  job.fine_tuning.lora = {.modules = {"llm.layers"}, .rank = 2};
  job.fine_tuning.train = {"encoder", "image_projection", "prompt_projection", "prompt_norm", "mask_decoder"};
  job.fine_tuning.quantize = {.modules = {"llm.layers"}};
  const TrainReport report = train(job);
  EXPECT_TRUE(report.fits);
  EXPECT_LE(report.measured_peak_bytes, report.planned_peak_bytes);
  EXPECT_GE(static_cast<double>(report.measured_peak_bytes), 0.99 * static_cast<double>(report.planned_peak_bytes));
}

}  // namespace
}  // namespace plimsoll
