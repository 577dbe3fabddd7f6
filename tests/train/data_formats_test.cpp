// Tests the same numbers from other files: the same losses, bit for bit.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "data/series/stimuli_files.h"
#include "files/npy_files.h"
#include "files/picture_files.h"
#include "plimsoll/train_job.h"
#include "thresholds.h"
#include "train/job_data.h"
#include "train/tiny_job.h"
#include "train/tiny_systems.h"

namespace plimsoll {
namespace {

void one_micro_batch(Job& job, int64_t steps) {
  job.batch_size = job.micro_batch_size = 4;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  job.budget.device = int64_t{1} << 28;
  job.max_steps = steps;
  job.threads = 1;
}

TEST(DataFormats, GesturesFromNumpyLearnAsFromTs) {
  const TempFolder folder;
  constexpr int64_t kLength = 24, kCount = 12;
  std::string ts = "@classLabel true 0 1\n@dimensions 2\n@data\n";
  std::vector<double> vectors(static_cast<size_t>(kCount * kLength * 2));
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < kCount; ++i) {
    labels.push_back(i % 2);
    for (int64_t channel = 0; channel < 2; ++channel) {
      for (int64_t t = 0; t < kLength; ++t) {
        const double value = std::sin((i % 2 ? 0.9 : 0.3) * double(t) + double(7 * i + channel));
        vectors[static_cast<size_t>((i * kLength + t) * 2 + channel)] = value;
        ts += fmt::format("{}{:.17g}", t ? "," : "", value);
      }
      ts += ":";
    }
    ts += std::to_string(labels.back()) + "\n";
  }
  Job job;
  job.model.type = "gesture_ssm";
  GestureSsmConfig& model = job.model.gesture;
  model.channels = model.num_classes = 2;
  model.hidden_dim = 16;
  model.num_layers = 2;
  model.d_state = model.head_dim = model.chunk_size = 8;
  job.data.type = "series";
  job.data.series.length = kLength;
  job.data.series.train_ratio_of_vectors = 0.75;
  job.data.series.order = "hilbert";
  job.data.validation_fraction = 0.25;
  one_micro_batch(job, 8);
  job.data.files = {put_file(folder / "a.ts", ts)};
  const TrainReport from_ts = train(job);
  job.data.files = {put_file(folder / "a.npy", npy("<f8", fmt::format("({}, {}, 2)", kCount, kLength), vectors))};
  job.data.series.labels = {put_file(folder / "labels.npy", npy("<i8", fmt::format("({},)", kCount), labels))};
  const TrainReport from_numpy = train(job);
  EXPECT_EQ(from_numpy.losses, from_ts.losses);
  EXPECT_EQ(from_numpy.metrics, from_ts.metrics);
}

TEST(DataFormats, FmriFromNumpyLearnsAsFromNifti) {
  const TempFolder folder;
  const StimuliFiles files(folder, 4, 2, false);
  Job job;
  job.model = tiny_fmri_autoencoder();
  job.data = files.config;
  one_micro_batch(job, 8);
  const TrainReport from_nifti = train(job);
  // In nibabel's layout of a scan, in Fortran's order: NIfTI's own.
  const std::string numbers(reinterpret_cast<const char*>(files.values.data()), files.values.size() * sizeof(float));
  const std::string shape = fmt::format("(3, 2, 1, {})", files.volumes);
  job.data.stimuli.fmri = put_file(folder / "bold.npy", npy_of_header(npy_header("<f4", shape, true), numbers));
  job.data.stimuli.mask =
      put_file(folder / "mask.npy", npy_of_header(npy_header("|u1", "(3, 2, 1)", true), {1, 1, 1, 1, 1, 0}));
  std::vector<float> words;
  for (int64_t v = 0; v < files.volumes; ++v)
    for (int64_t i = 0; i < StimuliFiles::kFeatures; ++i)
      words.push_back(i == v % StimuliFiles::kPerRun / 3 * (1 + v / StimuliFiles::kPerRun) % 3 ? 2 : -1);
  job.data.stimuli.text_embeddings.clear();
  job.data.stimuli.text_features = put_file(
      folder / "words.npy", npy("<f4", fmt::format("({}, {})", files.volumes, StimuliFiles::kFeatures), words));
  const TrainReport from_numpy = train(job);
  EXPECT_EQ(from_numpy.losses, from_nifti.losses);
  EXPECT_EQ(from_numpy.metrics, from_nifti.metrics);
}

// A list may hold pictures out by its own split; data.validation_fraction is 0.
TEST(DataFormats, AListOfPicturesDecidesWhetherAStepIsEvaluated) {
  const TempFolder folder;
  DataConfig data = scenes(folder, 3);
  data.validation_fraction = 0;
  const auto is_evaluated = [&](const std::string& splits) {
    DataConfig with_list = data;
    with_list.pictures.list = put_file(folder / "pairs.csv", splits);
    decide_evaluation(with_list);
    return with_list.is_evaluated();
  };
  const std::string first = "image,mask,split\nimages/scene0.png,masks/scene0.png,train\n";
  EXPECT_FALSE(is_evaluated(first));
  EXPECT_TRUE(is_evaluated(first + "images/scene1.png,masks/scene1.png,validation\n"));
  EXPECT_FALSE(is_evaluated(first + "images/scene1.png,masks/scene1.png,test\n"));
  EXPECT_FALSE(is_evaluated(first + "images/scene1.png\n"));  // open_samples() refuses the line
  data.evaluate_on = "test";
  EXPECT_TRUE(is_evaluated(first + "images/scene1.png,masks/scene1.png,test\n"));
  decide_evaluation(data);
  EXPECT_FALSE(data.is_evaluated());
}

// The held-out pictures are copies of the pictures trained on. A model that memorizes these has a Dice near 1, for any
// seed and processor. The prediction for unseen pictures depends on the model, not on the files.
TEST(DataFormats, PicturesTeachMasks) {
  const TempFolder folder;
  Job job;
  job.model = tiny_prompt_segmentation();
  job.model.segmentation.prompt_length = 24;
  job.data = scenes(folder, /*count=*/32, /*distinct=*/6);
  job.data.slices.prompt = "{}";
  job.data.slices.answer = ":";
  one_micro_batch(job, 400);
  job.optimizer.learning_rate = 4e-3;
  job.seed = test_seed();
  const TrainReport report = train(job);
  ASSERT_TRUE(report.fits);
  EXPECT_LE(report.measured_peak_bytes, report.planned_peak_bytes);
  ASSERT_EQ(report.metrics.size(), 1u);
  EXPECT_EQ(report.metrics[0].first, "dice");
  expect_above("dice", report.metrics[0].second, 0.7);
}

}  // namespace
}  // namespace plimsoll
