// Opens data with one value everywhere. Each normalization divides by a deviation: that of a constant is 0, or the
// rounding error of its mean. Both must give zeros. The names that samples have in messages are checked here, too.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "data/masks/labeled_volume.h"
#include "data/masks/picture_plane.h"
#include "data/masks/picture_samples.h"
#include "data/masks/slice_samples.h"
#include "data/series/series_samples.h"
#include "data/series/stimuli_files.h"
#include "data/series/stimuli_samples.h"
#include "data/series/stimulus_media.h"
#include "data/text/tokenizer.h"
#include "files/nifti_files.h"
#include "files/picture_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

std::vector<float> numbers_of(const Batch& batch, const char* name) {
  const auto field = std::ranges::find(batch.fields, name, &BatchField::name);
  const auto* values = reinterpret_cast<const float*>(field->bytes.data());
  return {values, values + field->bytes.size() / sizeof(float)};
}

Batch all_of(const SampleSource& source, Split split) {
  const int64_t count = source.samples(split);
  return source.batch(WindowOrder(count, 0, false), split, 0, count);
}

TEST(ConstantData, APictureOfOneColorBecomesZero) {
  const TempFolder folder;
  for (const uint16_t color : {0, 77, 255})
    for (const int64_t channels : {1, 3})
      for (const int64_t size : {16, 7}) {  // 7: pixels are averaged
        const auto file = put_file(folder / "one.png", png(61, 43, 8, kPngGray, std::vector<uint16_t>(61 * 43, color)));
        EXPECT_THAT(read_plane(file, size, channels, "picture").values, Each(0.0F)) << color;
        const auto imagenet = read_plane(file, size, channels, "imagenet").values;
        EXPECT_THAT(imagenet, Each(AllOf(Ge(-3.0F), Le(3.0F))));
      }
}

TEST(ConstantData, AlmostOneColorIsNormalizedAsBefore) {
  const TempFolder folder;
  std::vector<uint16_t> pixels(64 * 64, 77);
  pixels[100] = 78;
  const auto values =
      read_plane(put_file(folder / "one.png", png(64, 64, 8, kPngGray, pixels)), 64, 1, "picture").values;
  EXPECT_NEAR(values[100], std::sqrt(4095.0), 0.1);
  EXPECT_NEAR(values[0], -1 / std::sqrt(4095.0), 1e-4);
}

// Sums of squares of 0.1 and of 30000.7 are rounded: the variance was -7e-16 (a background of -0.1) and 1.5e-5 (a
// background of -7.8e6).
TEST(ConstantData, AForegroundOfOneValueBecomesZero) {
  const TempFolder folder;
  for (const float value : {0.1F, 1.0F, 30000.7F}) {
    std::vector<float> image;
    std::vector<uint8_t> labels;
    for (int64_t i = 0; i < 24 * 24 * 30; ++i) {
      labels.push_back(i % 3 == 0 ? 5 : 0);
      image.push_back(labels.back() == 5 ? value : 0);
    }
    const LabeledVolume volume(put_file(folder / "image.nii", nifti_bytes(NiftiType::float32, {24, 24, 30}, image)),
                               put_file(folder / "labels.nii", nifti_bytes(NiftiType::uint8, {24, 24, 30}, labels)),
                               {{5, 0}}, 2);
    std::vector<float> slice(24 * 24);
    volume.image(3, 1, 24, slice);
    for (size_t i = 0; i < slice.size(); ++i) EXPECT_EQ(slice[i], i % 3 == 0 ? 0.0F : -1.0F) << value;
  }
}

TEST(ConstantData, AnEmptyVolumeIsRefused) {
  const TempFolder folder;
  const auto image = put_file(folder / "image.nii",
                              nifti_bytes(NiftiType::float32, {24, 24, 30}, std::vector<float>(24 * 24 * 30, 0.1F)));
  const auto labels = put_file(folder / "labels.nii",
                               nifti_bytes(NiftiType::uint8, {24, 24, 30}, std::vector<uint8_t>(24 * 24 * 30, 5)));
  EXPECT_THAT(user_error_of([&] {
                LabeledVolume(image, labels, {{5, 0}}, 2);
              }),
              HasSubstr("image.nii: all voxels have the same value"));
}

// Channel 1 is 0.1 in all training series, and not in the held-out ones.
TEST(ConstantData, AConstantChannelOfSeriesBecomesZero) {
  const TempFolder folder;
  const auto file = [&](const char* name, const char* value) {
    std::string text = "@classLabel true a b\n@dimensions 2\n@data\n";
    for (int i = 0; i < 7; ++i) {
      for (int t = 0; t < 10; ++t) text += (t ? "," : "") + std::to_string(i * t);
      text += ":";
      for (int t = 0; t < 10; ++t) text += std::string(t ? "," : "") + value;
      text += i % 2 ? ":b\n" : ":a\n";
    }
    return put_file(folder / name, text);
  };
  DataConfig config;
  config.type = "series";
  config.files = {file("train.ts", "0.1")};
  config.series.validation_files = {file("test.ts", "0.2")};
  config.series.length = 10;
  const auto source = series_samples(config, {2, 2}, 1);
  const auto train = numbers_of(all_of(*source, Split::train), "vectors");
  for (size_t i = 1; i < train.size(); i += 3) EXPECT_EQ(train[i], 0);
  const auto held_out = numbers_of(all_of(*source, Split::validation), "vectors");
  for (size_t i = 1; i < held_out.size(); i += 3) EXPECT_NEAR(held_out[i], 0.1, 1e-6);
  EXPECT_THAT(source->name_of(Split::train, 2), EndsWith("train.ts:6"));
}

TEST(ConstantData, ConstantVoxelsBecomeZero) {
  FmriSeries series;
  series.volumes = 7;
  series.voxels = 3;
  for (int64_t v = 0; v < 7; ++v) {
    const float value = v < 6 ? 0.1F : 0.2F;  // the last volume is not trained on
    series.values.insert(series.values.end(), {0.0F, value, static_cast<float>(v)});
  }
  standardize(series, {0, 1, 2, 3, 4, 5});
  for (size_t i = 0; i < series.values.size(); ++i) {
    EXPECT_TRUE(std::isfinite(series.values[i])) << i;
    if (i % 3 < 2) {
      EXPECT_EQ(series.values[i], 0) << i;
    }
  }
}

TEST(ConstantData, SilenceAndAConstantSoundHaveFiniteSpectra) {
  for (const float value : {0.0F, 1.0F}) {
    const std::vector<float> sound(16000, value);
    EXPECT_THAT(log_mel(sound, 4, 0.25, 8), Each(AllOf(Ge(-1.0F), Le(4.0F)))) << value;
  }
  EXPECT_THAT(log_mel(std::vector<float>(16000, 0.0F), 4, 0.25, 8), Each(kMelSilence));
}

TEST(ConstantData, SamplesNameTheirFiles) {
  const TempFolder folder;
  const auto tokenizer = make_tokenizer("bytes", "");
  const auto pictures = picture_samples(scenes(folder, 8), {kSceneSide, 1, 48}, *tokenizer, {}, 0);
  EXPECT_THAT(pictures->name_of(Split::train, 0), AllOf(HasSubstr("images/scene"), EndsWith(".png")));
  const auto slices = slice_samples(box_slices(folder), {24, 1, 48}, *tokenizer, {}, 0);
  EXPECT_EQ(slices->name_of(Split::train, 0), "slice 2 of image.nii");
  const StimuliFiles stimuli(folder, 4, 2, false);
  const StimuliShape shape{.voxels = StimuliFiles::kVoxels,
                           .video_frames = 2,
                           .video_size = 4,
                           .audio_frames = 2,
                           .audio_mels = 4,
                           .text_tokens = 2,
                           .text_features = StimuliFiles::kFeatures};
  const auto volumes = stimuli_samples(
      stimuli.config, shape, [](const std::string&, double) {}, 0);
  EXPECT_THAT(volumes->name_of(Split::train, 0), AllOf(HasSubstr("volume 2 of "), EndsWith("bold.nii")));
}

}  // namespace
}  // namespace plimsoll
