// Tests fMRI series and computed features from NumPy files.
#include <gmock/gmock.h>

#include "data/series/fmri_series.h"
#include "data/series/stimuli_files.h"
#include "data/series/stimuli_samples.h"
#include "files/npy_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns a scan of 3 x 2 x 1 in nibabel's layout, [x, y, z, volumes], from numbers with x the fastest and volumes one
/// by one.
std::string as_nibabel_has_it(const std::vector<float>& values, int64_t volumes) {
  std::vector<float> turned(values.size());
  for (int64_t v = 0; v < volumes; ++v)
    for (int64_t y = 0; y < 2; ++y)
      for (int64_t x = 0; x < 3; ++x)
        turned[static_cast<size_t>((x * 2 + y) * volumes + v)] = values[static_cast<size_t>(v * 6 + y * 3 + x)];
  return npy("<f4", "(3, 2, 1, " + std::to_string(volumes) + ")", turned);
}

TEST(FmriArrays, AreReadAsTheirScan) {
  const TempFolder folder;
  const StimuliFiles files(folder, 2, 2, false);
  const auto scan = put_file(folder / "bold.npy", as_nibabel_has_it(files.values, files.volumes));
  // The sixth of the mask's voxels, (2, 1, 0), is 0.
  const auto mask = put_file(folder / "mask.npy", npy("|b1", "(3, 2, 1)", std::vector<uint8_t>{1, 1, 1, 1, 1, 0}));
  for (const bool masked : {false, true}) {
    const FmriSeries nifti = read_fmri(files.config.stimuli.fmri, masked ? files.config.stimuli.mask : "");
    const FmriSeries array = read_fmri(scan, masked ? mask : "");
    EXPECT_EQ(array.volumes, nifti.volumes);
    EXPECT_EQ(array.voxels, nifti.voxels);
    EXPECT_EQ(array.values, nifti.values);
    EXPECT_EQ(array.time.seconds, 0);
  }
  EXPECT_EQ(read_fmri(scan, "").voxels, 5);  // the sixth does not vary
  // Fortran's order, as nibabel's own get_fdata() saves it.
  const std::string header = npy_header("<f4", "(3, 2, 1, " + std::to_string(files.volumes) + ")", true);
  const std::string in_order(reinterpret_cast<const char*>(files.values.data()), files.values.size() * 4);
  EXPECT_EQ(read_fmri(put_file(folder / "f.npy", npy_of_header(header, in_order)), mask).values,
            read_fmri(scan, mask).values);
}

TEST(FmriArrays, MayBeVolumesByVoxels) {
  const TempFolder folder;
  const auto file = put_file(folder / "a.npy", npy("<i2", "(2, 3)", std::vector<int16_t>{1, 2, 3, 1, 5, 6}));
  const FmriSeries series = read_fmri(file, "");
  EXPECT_EQ(series.volumes, 2);
  EXPECT_THAT(series.values, ElementsAre(1, 2, 3, 1, 5, 6));
  EXPECT_THAT(user_error_of([&] { read_fmri(file, folder / "mask.npy"); }), HasSubstr("no grid for a mask"));
}

TEST(FmriArrays, SayWhatIsWrong) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& bytes, const std::filesystem::path& mask = {}) {
    const std::string message = user_error_of([&] { read_fmri(put_file(folder / "a.npy", bytes), mask); });
    EXPECT_THAT(message, HasSubstr(folder.path().string()));
    return message;
  };
  EXPECT_THAT(refusal(npy("<f4", "(3,)", std::vector<float>(3))), HasSubstr("it is 3 of float32; [volumes, voxels]"));
  EXPECT_THAT(refusal(npy("<f4", "(0, 3)", std::vector<float>())), HasSubstr("is wanted"));
  const std::string scan = npy("<f4", "(1, 1, 2, 2)", std::vector<float>{1, 2, 3, 4});
  EXPECT_THAT(refusal(scan, put_file(folder / "m.npy", npy("|b1", "(1, 2, 1)", std::vector<uint8_t>{1, 1}))),
              HasSubstr("its first three sizes"));
  EXPECT_THAT(refusal(scan, put_file(folder / "m.npy", npy("|b1", "(1, 1, 2)", std::vector<uint8_t>{0, 0}))),
              HasSubstr("0 everywhere"));
  EXPECT_THAT(refusal(scan, folder / "m.nii"), HasSubstr("is a .npy file too"));
  EXPECT_THAT(refusal(npy("<f4", "(1, 1, 1, 2)", std::vector<float>{1, 1})), HasSubstr("no voxel of it varies"));
}

constexpr StimuliShape kArraysShape{.voxels = StimuliFiles::kVoxels,
                                    .video_frames = 6,
                                    .video_size = 2,
                                    .audio_frames = 6,
                                    .audio_mels = 5,
                                    .text_tokens = 3,
                                    .text_features = StimuliFiles::kFeatures};

Batch all_of(const DataConfig& config, const StimuliShape& shape = kArraysShape) {
  const auto source = stimuli_samples(config, shape, [](const std::string&, double) {});
  const int64_t count = source->samples(Split::train);
  return source->batch(WindowOrder(count, 0, false), Split::train, 0, count);
}

// A vector a volume that is its label's: the same samples as from labels and their vectors.
TEST(StimulusFeatures, OfTextAreWhatLabelsWouldBe) {
  const TempFolder folder;
  StimuliFiles files(folder, 3, 2, false);
  const Batch by_label = all_of(files.config);
  std::vector<float> features;
  for (int64_t v = 0; v < files.volumes; ++v) {
    const auto label = v % StimuliFiles::kPerRun / 3 * (1 + v / StimuliFiles::kPerRun) % 3;
    for (int64_t i = 0; i < StimuliFiles::kFeatures; ++i) features.push_back(i == label ? 2 : -1);
  }
  files.config.stimuli.text_embeddings.clear();
  files.config.stimuli.text_features =
      put_file(folder / "words.npy", npy("<f4", "(" + std::to_string(files.volumes) + ", 4)", features));
  const Batch by_volume = all_of(files.config);
  for (size_t field = 0; field < by_label.fields.size(); ++field)
    EXPECT_EQ(by_volume.fields[field].bytes, by_label.fields[field].bytes) << by_label.fields[field].name;
}

TEST(StimulusFeatures, OfSoundAndPicturesLieEvenlyOverTheWindow) {
  const TempFolder folder;
  StimuliFiles files(folder, 2, 2, false);
  const int64_t volumes = files.volumes;
  // Two rows a volume that count: a window of three volumes has six.
  std::vector<float> sounds;
  for (int64_t row = 0; row < 2 * volumes; ++row) sounds.insert(sounds.end(), 5, static_cast<float>(row));
  std::vector<uint8_t> pictures;
  for (int64_t v = 0; v < volumes; ++v)
    for (int i = 0; i < 12; ++i) pictures.push_back(static_cast<uint8_t>(i % 3 == 0 ? 255 : v));
  files.config.stimuli.audio_features =
      put_file(folder / "mel.npy", npy("<f4", "(" + std::to_string(2 * volumes) + ", 5)", sounds));
  files.config.stimuli.pictures =
      put_file(folder / "seen.npy", npy("|u1", "(" + std::to_string(volumes) + ", 2, 2, 3)", pictures));
  const Batch batch = all_of(files.config);
  const auto* frames = reinterpret_cast<const float*>(batch.fields[0].bytes.data());
  const auto* mel = reinterpret_cast<const float*>(batch.fields[1].bytes.data());
  // The third sample is volume 4 of the first run: delay 2, it sees volumes 0, 1 and 2.
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(mel[(2 * 6 + i) * 5], static_cast<float>(i));
    const float* picture = frames + (2 * 6 + i) * 12;
    EXPECT_EQ(picture[0], 1);                                       // red is full
    EXPECT_EQ(picture[4], static_cast<float>(i / 2) / 127.5f - 1);  // green is the volume's number
  }
  // The first sees nothing before its run began.
  EXPECT_EQ(frames[0], -1);
}

TEST(StimulusFeatures, SayWhatIsWrong) {
  const TempFolder folder;
  StimuliFiles files(folder, 2, 2, false);
  files.config.stimuli.text_embeddings.clear();
  const auto refusal = [&](const std::string& bytes) {
    files.config.stimuli.text_features = put_file(folder / "words.npy", bytes);
    return user_error_of([&] { all_of(files.config); });
  };
  EXPECT_THAT(refusal(npy("<f4", "(23, 4)", std::vector<float>(92))),
              AllOf(HasSubstr("data.text_features"), HasSubstr("words.npy is 23 x 4 of float32; allowed: 24 x 4,")));
  EXPECT_THAT(refusal(npy("<f4", "(24, 3)", std::vector<float>(72))), HasSubstr("allowed: 24 x 4,"));
  EXPECT_THAT(refusal(npy("<f8", "(24, 4)", std::vector<double>(96, 1e300))),
              HasSubstr("not finite in float32, in row 0"));
}

}  // namespace
}  // namespace plimsoll
