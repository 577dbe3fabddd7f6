// Tests a job on an fMRI series with its stimuli, from files to metrics.
#include <gmock/gmock.h>

#include "data/series/stimuli_files.h"
#include "plimsoll/error.h"
#include "thresholds.h"
#include "train/tiny_job.h"
#include "train/tiny_systems.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

Job stimuli_job(const StimuliFiles& files) {
  Job job;
  job.model = tiny_fmri_autoencoder();
  job.data = files.config;
  job.optimizer.learning_rate = 5e-3;
  job.batch_size = job.micro_batch_size = 8;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  job.budget.device = int64_t{1} << 28;
  job.max_steps = 1000;
  job.seed = test_seed();
  job.threads = 1;
  return job;
}

TEST(StimuliJob, LearnsWhatIsHeldOutInsideItsPlan) {
  const TempFolder folder;
  const StimuliFiles files(folder, 8, 2, true);
  const TrainReport report = train(stimuli_job(files));
  expect_below("loss, last of first", report.losses.back() / report.losses.front(), 0.7);
  EXPECT_EQ(report.measured_peak_bytes, report.planned_peak_bytes);
  ASSERT_FALSE(report.metrics.empty());
  EXPECT_EQ(report.metrics[0].first, "correlation");
  ASSERT_EQ(report.baselines.size(), 1u);
  EXPECT_EQ(report.baselines[0].name, "training mean");
  EXPECT_EQ(report.baselines[0].value, 0);
  expect_above("correlation", report.metrics[0].second, 0.5);
}

TEST(StimuliJob, SaysWhichKeyDoesNotFitTheFiles) {
  const TempFolder folder;
  const StimuliFiles files(folder, 4, 2, false);
  Job job = stimuli_job(files);
  job.model.fmri.voxels = 6;
  EXPECT_THAT(user_error_of([&] { train(job); }), HasSubstr("set model.voxels: 5"));
}

TEST(StimuliJob, KeysAreChecked) {
  const auto refusal = [](const std::string& data) {
    return user_error_of(
        [&] { parse_job("{model.type: fmri_autoencoder, data: {type: stimuli" + data + "}}", "job.yaml", ""); });
  };
  EXPECT_THAT(refusal(""), HasSubstr("data.fmri is missing"));
  EXPECT_THAT(refusal(", fmri: a.nii, texts: b.txt"),
              HasSubstr("data.texts is given, and data.text_embeddings is not"));
  EXPECT_THAT(refusal(", fmri: a.nii, text_embeddings: b"), HasSubstr("data.text_embeddings is given, and data.texts"));
  EXPECT_THAT(refusal(", fmri: a.nii, fmri_detrend: cubic"), HasSubstr("allowed: none, mean, linear"));
  EXPECT_THAT(refusal(", fmri: a.nii, tokenizer: gpt2"), HasSubstr("data.tokenizer"));
  const Job job =
      parse_job("{model.type: fmri_autoencoder, data: {type: stimuli, fmri: a.nii, videos: clips}}", "job.yaml", "/x");
  EXPECT_EQ(job.data.stimuli.fmri, "/x/a.nii");
  EXPECT_EQ(job.data.stimuli.videos, "/x/clips");
  EXPECT_EQ(job.data.stimuli.delay, 2);
}

}  // namespace
}  // namespace plimsoll
