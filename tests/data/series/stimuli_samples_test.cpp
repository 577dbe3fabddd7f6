#include "data/series/stimuli_samples.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "data/series/stimuli_files.h"
#include "files/file_kind.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr StimuliShape kShape{.voxels = StimuliFiles::kVoxels,
                              .video_frames = 6,
                              .video_size = 4,
                              .audio_frames = 6,
                              .audio_mels = 5,
                              .text_tokens = 3,
                              .text_features = StimuliFiles::kFeatures};

std::unique_ptr<SampleSource> opened(const DataConfig& config, const StimuliShape& shape = kShape) {
  return stimuli_samples(config, shape, [](const std::string&, double) {});
}

Batch in_order(const SampleSource& source, Split split) {
  const int64_t count = source.samples(split);
  return source.batch(WindowOrder(count, 0, false), split, 0, count);
}

float value(const Batch& batch, size_t field, int64_t index) {
  float number = 0;
  std::memcpy(&number, batch.fields[field].bytes.data() + index * 4, 4);
  return number;
}

TEST(StimuliSamples, HoldsOutWholeRunsAndLeavesOutWhatRespondsToNothing) {
  const TempFolder folder;
  const StimuliFiles files(folder, 4, 2, false);
  const auto source = opened(files.config);
  EXPECT_EQ(source->samples(Split::train), 3 * 10);  // the first two volumes of a run respond to stimuli before it
  EXPECT_EQ(source->samples(Split::validation), 10);
  DataConfig config = files.config;
  config.validation_fraction = 0.5;
  EXPECT_EQ(opened(config)->samples(Split::validation), 20);
  config.validation_fraction = 0.01;
  EXPECT_EQ(opened(config)->samples(Split::validation), 10);  // one at least
  config.validation_fraction = 0;
  EXPECT_EQ(opened(config)->samples(Split::validation), 0);
  EXPECT_EQ(opened(config)->samples(Split::train), 40);
}

/// Returns the labels of a part's volumes: the words of the samples' last volumes name them.
std::set<int> labels_in(const SampleSource& source, Split split) {
  const Batch batch = in_order(source, split);
  std::set<int> labels;
  for (int64_t i = 0; i < source.samples(split); ++i)
    for (int label = 0; label < 3; ++label)
      if (value(batch, 2, (i * kShape.text_tokens + kShape.text_tokens - 1) * kShape.text_features + label) == 2)
        labels.insert(label);
  return labels;
}

// Runs of one label each, or one run whose end has one label: the last volumes never show what training lacks.
TEST(StimuliSamples, EveryPartHasEveryLabelThatHasRoom) {
  const TempFolder folder;
  const StimuliFiles files(folder, 4, 1, false);
  DataConfig config = files.config;
  const char* names[] = {"rest", "bright", "dark"};
  const auto write = [&](bool runs, const std::function<int(int64_t)>& label) {
    std::string texts;
    for (int64_t v = 0; v < files.volumes; ++v)
      texts += names[label(v)] + (runs ? " run" + std::to_string(v / StimuliFiles::kPerRun) : "") + "\n";
    put_file(config.stimuli.texts, texts);
  };
  const auto opened_with_all = [&](const std::string& what) {
    SCOPED_TRACE(what);
    DataNotes notes;
    const DataNotes::Scope scope(notes);
    for (const char* part : {"validation", "test"}) {
      if (config.test_fraction == 0 && part == std::string("test")) continue;
      config.evaluate_on = part;
      const auto source = opened(config);
      EXPECT_EQ(labels_in(*source, Split::train).size(), 3u);
      EXPECT_EQ(labels_in(*source, Split::validation).size(), 3u) << part;
    }
    EXPECT_THAT(notes.lines(), ::testing::IsEmpty());
  };
  config.validation_fraction = 0.5;
  // Runs 0 and 2 have two labels each, run 1 the third one as well, run 3 has one.
  write(true, [](int64_t v) {
    return v / 12 == 3 ? 0 : v / 12 == 1 ? static_cast<int>(v % 3) : static_cast<int>(v % 2 + v / 24);
  });
  opened_with_all("runs");
  config.validation_fraction = 0.25;
  write(false, [](int64_t v) { return v >= 36 ? 0 : static_cast<int>(v / 3 % 3); });
  opened_with_all("one run");
  config.validation_fraction = 0.3;
  config.test_fraction = 0.3;
  opened_with_all("one run with a test");
}

TEST(StimuliSamples, NamesTheLabelsThatAPartLacks) {
  const TempFolder folder;
  const StimuliFiles files(folder, 2, 0, false);
  std::string texts;
  for (int64_t v = 0; v < files.volumes; ++v) texts += v < 12 ? "rest one\n" : v % 2 ? "bright two\n" : "dark two\n";
  put_file(files.config.stimuli.texts, texts);
  DataConfig config = files.config;
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  const auto source = opened(config);
  EXPECT_EQ(source->never_trained(), "12 of 12 validation volumes show what is never trained on: label rest");
  EXPECT_THAT(notes.lines(), ::testing::Contains(HasSubstr("labels.txt: the training part has no volumes of the label "
                                                           "rest")));
}

TEST(StimuliSamples, TheLastRunsAreOfTheTest) {
  const TempFolder folder;
  const StimuliFiles files(folder, 4, 0, false);
  DataConfig config = files.config;
  config.test_fraction = 0.25;
  const auto validation = opened(config);
  config.evaluate_on = "test";
  const auto test = opened(config);
  for (const auto* source : {validation.get(), test.get()}) {
    EXPECT_EQ(source->samples(Split::train), 2 * 12);
    EXPECT_EQ(source->samples(Split::validation), 12);
  }
  EXPECT_EQ(in_order(*validation, Split::train).fields[3].bytes, in_order(*test, Split::train).fields[3].bytes);
  EXPECT_NE(in_order(*validation, Split::validation).fields[3].bytes,
            in_order(*test, Split::validation).fields[3].bytes);
  config.validation_fraction = 0.5;
  config.test_fraction = 0.5;
  EXPECT_THAT(user_error_of([&] { opened(config); }), HasSubstr("leave nothing of it to train on"));
}

TEST(StimuliSamples, OfOneRunTheEndsAreHeldOut) {
  const TempFolder folder;
  StimuliFiles files(folder, 2, 0, false);
  files.config.stimuli.texts.clear();
  files.config.stimuli.text_embeddings.clear();
  files.config.test_fraction = 0.125;
  for (const auto& [part, count] : {std::pair("validation", 6), std::pair("test", 3)}) {
    files.config.evaluate_on = part;
    const auto source = opened(files.config);
    EXPECT_EQ(source->samples(Split::train), 15);
    EXPECT_EQ(source->samples(Split::validation), count);
  }
}

TEST(StimuliSamples, OfOneRunHoldsOutTheEnd) {
  const TempFolder folder;
  StimuliFiles files(folder, 2, 2, false);
  files.config.stimuli.texts.clear();
  files.config.stimuli.text_embeddings.clear();
  const auto source = opened(files.config);
  EXPECT_EQ(source->samples(Split::train), 18 - 2);
  EXPECT_EQ(source->samples(Split::validation), 6 - 2);
  for (float word : {value(in_order(*source, Split::train), 2, 0), value(in_order(*source, Split::train), 2, 11)})
    EXPECT_EQ(word, 0);
  ASSERT_EQ(source->all_baselines().size(), 1u);
  EXPECT_EQ(source->all_baselines()[0].value, 0);
}

// The words of a sample are those of the three volumes that end `delay` volumes before it, within its run.
TEST(StimuliSamples, WordsComeBeforeTheirResponse) {
  for (int64_t delay : {0, 1, 2}) {
    const TempFolder folder;
    const StimuliFiles files(folder, 4, delay, false);
    const auto source = opened(files.config);
    const Batch batch = in_order(*source, Split::train);
    const int64_t per_run = StimuliFiles::kPerRun - delay;
    for (int64_t i = 0; i < source->samples(Split::train); ++i) {
      const int64_t run = i / per_run, volume = i % per_run + delay;
      for (int64_t token = 0; token < 3; ++token) {
        const int64_t shown = volume - delay - 2 + token;
        const int64_t label = shown / 3 * (1 + run) % 3;
        for (int64_t f = 0; f < StimuliFiles::kFeatures; ++f)
          ASSERT_EQ(value(batch, 2, (i * 3 + token) * StimuliFiles::kFeatures + f), shown < 0    ? 0
                                                                                    : f == label ? 2
                                                                                                 : -1)
              << delay << " " << i << " " << token;
      }
    }
  }
}

TEST(StimuliSamples, VoxelsAreStandardizedByTheVolumesTrainedOn) {
  const TempFolder folder;
  StimuliFiles files(folder, 4, 2, false);
  files.config.stimuli.detrend = "none";
  const auto source = opened(files.config);
  const Batch train = in_order(*source, Split::train), held_out = in_order(*source, Split::validation);
  for (int64_t voxel = 0; voxel < StimuliFiles::kVoxels; ++voxel) {
    std::vector<double> raw;
    for (int64_t v = 0; v < 36; ++v)
      if (v % 12 >= 2) raw.push_back(files.values[static_cast<size_t>(v * 6 + voxel)]);
    double mean = 0, variance = 0;
    for (double each : raw) mean += each / 30;
    for (double each : raw) variance += (each - mean) * (each - mean) / 30;
    for (int64_t i = 0; i < 30; ++i)
      ASSERT_NEAR(value(train, 3, i * StimuliFiles::kVoxels + voxel),
                  (raw[static_cast<size_t>(i)] - mean) / std::sqrt(variance), 1e-3);
    for (int64_t i = 0; i < 10; ++i)
      ASSERT_NEAR(value(held_out, 3, i * StimuliFiles::kVoxels + voxel),
                  (files.values[static_cast<size_t>((38 + i) * 6 + voxel)] - mean) / std::sqrt(variance), 1e-3);
  }
}

TEST(StimuliSamples, ClipsBeginWithTheirLabelAndAreRepeated) {
  const TempFolder folder;
  const StimuliFiles files(folder, 4, 0, true);
  const auto source = opened(files.config);
  const Batch batch = in_order(*source, Split::train);
  ASSERT_EQ(source->samples(Split::train), 36);
  // Volumes 3 to 5 of run 0 are "bright". Volume 5 sees 6 seconds of it, a picture each: 0.5, 1.5, ..., 5.5 s into a
  // clip of 2 s of white and 2 s of gray.
  const float wanted[] = {1, 1, 0, 0, 1, 1};
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t pixel : {0, 17, 47}) EXPECT_NEAR(value(batch, 0, (5 * 6 + i) * 48 + pixel), wanted[i], 0.03) << i;
  // Volume 0 has nothing before it and rest shown, which has no clip; sound there is none.
  for (int64_t i = 0; i < 6 * 48; ++i) EXPECT_EQ(value(batch, 0, i), -1);
  for (int64_t i = 0; i < 6 * 5; ++i) EXPECT_EQ(value(batch, 1, 5 * 30 + i), -1);
  // Decoded data are read from the cache.
  const auto times = [&] {
    std::map<std::filesystem::path, std::filesystem::file_time_type> found;
    for (const auto& entry : std::filesystem::directory_iterator(files.config.cache_dir))
      found[entry.path()] = entry.last_write_time();
    return found;
  };
  const auto before = times();
  EXPECT_EQ(before.size(), 2u);
  EXPECT_EQ(in_order(*opened(files.config), Split::train).fields[0].bytes, batch.fields[0].bytes);
  EXPECT_EQ(times(), before);
}

TEST(StimuliSamples, AFilmRunsWithTheSeries) {
  const TempFolder folder;
  StimuliFiles files(folder, 1, 0, false);
  files.config.stimuli.texts.clear();
  files.config.stimuli.text_embeddings.clear();
  std::vector<int> brightness;  // a picture a second: 24 seconds for 12 volumes
  for (int i = 0; i < 24; ++i) brightness.push_back(10 * i);
  files.config.stimuli.videos = put_file(folder / "film.y4m", gray_video(brightness, 16, 16, 1));
  const Batch batch = in_order(*opened(files.config), Split::train);
  for (int64_t volume : {2, 7})
    for (int64_t i = 0; i < 6; ++i)
      EXPECT_NEAR(value(batch, 0, (volume * 6 + i) * 48), 10 * (2 * volume - 4 + i) / 127.5 - 1, 0.03);
  files.config.stimuli.videos = put_file(folder / "short.y4m", gray_video({1, 2, 3}, 16, 16, 1));
  EXPECT_THAT(user_error_of([&] { opened(files.config); }), HasSubstr("lasts 3.0 seconds, the series 24.0"));
}

TEST(StimuliSamples, ABatchDependsOnItsPlaceAlone) {
  const TempFolder folder;
  const StimuliFiles files(folder, 4, 1, true);
  const auto source = opened(files.config);
  const WindowOrder order(source->samples(Split::train), 3, true);
  const Batch whole = source->batch(order, Split::train, 5, 7);
  for (int64_t i = 0; i < 7; ++i) {
    const Batch one = source->batch(order, Split::train, 5 + i, 1);
    for (size_t f = 0; f < 4; ++f) {
      const auto& bytes = one.fields[f].bytes;
      EXPECT_EQ(
          std::memcmp(bytes.data(), whole.fields[f].bytes.data() + static_cast<size_t>(i) * bytes.size(), bytes.size()),
          0);
    }
  }
}

TEST(StimuliSamples, SaysWhatDoesNotGoTogether) {
  const TempFolder folder;
  const StimuliFiles files(folder, 2, 1, true);
  const auto refusal = [&](const auto& change) {
    DataConfig config = files.config;
    StimuliShape shape = kShape;
    change(config.stimuli, shape);
    return user_error_of([&] { opened(config, shape); });
  };
  EXPECT_THAT(refusal([](auto&, auto& shape) { shape.voxels = 9; }), HasSubstr("set model.voxels: 5"));
  EXPECT_THAT(refusal([](auto&, auto& shape) { shape.text_features = 9; }), HasSubstr("set model.text.features: 4"));
  EXPECT_THAT(refusal([&](auto& stimuli, auto&) { stimuli.texts = put_file(folder / "few.txt", "rest 0\n"); }),
              HasSubstr("has 1 lines, and"));
  EXPECT_THAT(refusal([&](auto& stimuli, auto&) {
                std::string text;
                for (int i = 0; i < 24; ++i) text += "cat 0\n";
                stimuli.texts = put_file(folder / "cats.txt", text);
              }),
              HasSubstr("no vector for the label 'cat'"));
  EXPECT_THAT(refusal([](auto& stimuli, auto&) { stimuli.delay = 12; }), HasSubstr("data.fmri_delay is 12"));
  EXPECT_THAT(refusal([&](auto& stimuli, auto&) { stimuli.videos = folder / "nowhere"; }), HasSubstr("nowhere"));
  EXPECT_THAT(refusal([&](auto& stimuli, auto&) { stimuli.videos = folder.path(); }),
              HasSubstr("no clip for any label; a clip is named as its label is: rest, bright, dark"));
}

TEST(StimuliSamples, LeavesOutWhatIsBadWhereAsked) {
  const TempFolder folder;
  StimuliFiles files(folder, 4, 0, true);
  std::vector<float> values = files.values;
  values[7 * 6 + 2] = NAN;
  put_file(folder / "bold.nii", scan({3, 2, 1, 48}, values));
  EXPECT_THAT(user_error_of([&] { opened(files.config); }), HasSubstr("volume 7 has values that are not finite"));
  files.config.skip_bad = true;
  put_file(files.config.stimuli.videos / "dark.y4m", "no video");
  const auto source = opened(files.config);
  EXPECT_EQ(source->samples(Split::train), 35);
  ASSERT_EQ(source->skipped().size(), 2u);
  EXPECT_THAT(source->skipped()[0], HasSubstr("volume 7"));
  EXPECT_THAT(source->skipped()[1], HasSubstr("dark.y4m"));
  const Batch batch = in_order(*source, Split::train);
  for (int64_t i = 0; i < 35 * StimuliFiles::kVoxels; ++i) EXPECT_TRUE(std::isfinite(value(batch, 3, i)));
  files.config.skip_bad = false;
  put_file(folder / "bold.nii", scan({3, 2, 1, 48}, files.values));
  EXPECT_THAT(user_error_of([&] { opened(files.config); }), HasSubstr("dark.y4m"));
}

// A voxel that is seldom a number is at fault itself: without it every volume can be used.
TEST(StimuliSamples, NamesVoxelsThatAreNoNumbers) {
  const TempFolder folder;
  StimuliFiles files(folder, 4, 0, false);
  std::vector<float> values = files.values;
  for (size_t v = 0; v < 48; ++v) values[v * 6 + 4] = NAN;
  put_file(folder / "bold.nii", scan({3, 2, 1, 48}, values));
  EXPECT_THAT(user_error_of([&] { opened(files.config); }),
              AllOf(HasSubstr("bold.nii within data.fmri_mask"),
                    HasSubstr("mask.nii: 1 of 5 voxels are not finite in at least half"),
                    HasSubstr("of the volumes: (1, 1, 0); leave them out of the mask, or set data.skip_bad: true"),
                    HasSubstr("4 remain for model.voxels")));
  files.config.skip_bad = true;
  EXPECT_THAT(user_error_of([&] { opened(files.config); }),
              AllOf(HasSubstr("has 4 voxels, and model.voxels is 5; the first volume begins with: "),
                    HasSubstr("if these are the values to learn, set model.voxels: 4")));
  StimuliShape shape = kShape;
  shape.voxels = 4;
  const auto source = opened(files.config, shape);
  EXPECT_EQ(source->samples(Split::train), 36);
  ASSERT_EQ(source->skipped().size(), 1u);
  EXPECT_THAT(source->skipped()[0], HasSubstr("(1, 1, 0)"));
  for (size_t v = 0; v < 48; ++v)
    for (size_t i = 0; i < 5; ++i) values[v * 6 + i] = i == v % 5 ? NAN : 1;
  put_file(folder / "bold.nii", scan({3, 2, 1, 48}, values));
  EXPECT_THAT(user_error_of([&] { opened(files.config); }),
              AllOf(HasSubstr("48 of its 48 volumes are left out for values that are not finite"),
                    HasSubstr("volume 0 has values that are not finite, the first at (0, 0, 0)")));
}

TEST(StimuliSamples, QuestionsARepetitionTimeThatVideosNeed) {
  const TempFolder folder;
  StimuliFiles files(folder, 4, 0, true);
  std::string bytes = get_file(folder / "bold.nii");
  const float time = 2000;
  std::memcpy(bytes.data() + 92, &time, 4);
  bytes[123] = 2 | 8;
  put_file(folder / "bold.nii", bytes);
  EXPECT_THAT(user_error_of([&] { opened(files.config); }),
              AllOf(HasSubstr("data.fmri: "), HasSubstr("bold.nii: pixdim[4] is 2000 seconds"),
                    HasSubstr("if they are milliseconds, set data.repetition_time: 2;")));
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  files.config.stimuli.repetition_time = 2;
  opened(files.config);
  ASSERT_EQ(notes.lines().size(), 1u);
  EXPECT_THAT(notes.lines()[0], HasSubstr("says 2000 seconds from volume to volume; data.repetition_time 2 is used"));
  files.config.stimuli.repetition_time = 0;
  files.config.stimuli.videos.clear();  // no other input needs the time
  opened(files.config);
  EXPECT_EQ(notes.lines().size(), 1u);
}

TEST(StimuliSamples, ComparesTheRepetitionTimeWithThatOfBids) {
  const TempFolder folder;
  StimuliFiles files(folder, 4, 0, true);
  std::string bytes = get_file(folder / "bold.nii");
  const float time = 2;
  std::memcpy(bytes.data() + 92, &time, 4);
  bytes[123] = 2 | 8;
  put_file(folder / "bold.nii", bytes);
  const auto message = [&](const std::string& sidecar) {
    put_file(folder / "bold.json", sidecar);
    return user_error_of([&] { opened(files.config); });
  };
  EXPECT_THAT(message(R"({"RepetitionTime": 0.8})"),
              AllOf(HasSubstr("bold.nii: 2 seconds from volume to volume, and RepetitionTime in "),
                    HasSubstr("bold.json is 0.8; set data.repetition_time to the right one")));
  EXPECT_THAT(message(R"({"VolumeTiming": [0, 2, 5]})"), HasSubstr("bold.json has VolumeTiming"));
  EXPECT_THAT(message("no JSON"), HasSubstr("bold.json is not valid JSON"));
  for (const char* same : {R"({"RepetitionTime": 2.0})", R"({"RepetitionTime": 2.001, "TaskName": "x"})", "{}"}) {
    put_file(folder / "bold.json", same);
    EXPECT_NO_THROW(opened(files.config)) << same;
  }
  put_file(folder / "bold.json", R"({"RepetitionTime": 0.8})");
  files.config.stimuli.repetition_time = 2;
  EXPECT_NO_THROW(opened(files.config));
}

}  // namespace
}  // namespace plimsoll
