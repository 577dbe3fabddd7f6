#include "data/series/stimulus_media.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <set>

#include "base/hash.h"
#include "cut_files.h"
#include "files/data_memory.h"
#include "files/encoded_video.h"
#include "files/media_files.h"

namespace plimsoll {
namespace {

std::vector<float> tone(double hertz, double seconds, double loudness = 1) {
  std::vector<float> samples(static_cast<size_t>(seconds * kMelSampleRate));
  for (size_t i = 0; i < samples.size(); ++i)
    samples[i] =
        static_cast<float>(loudness * std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / kMelSampleRate));
  return samples;
}

// Slaney's scale, written again: 3 mels for 200 Hz below 1 kHz, 27 for a factor of 6.4 above.
double mel(double hertz) {
  return hertz < 1000 ? 3 * hertz / 200 : 15 + 27 * std::log(hertz / 1000) / std::log(6.4);
}

TEST(LogMel, AToneIsInItsBand) {
  constexpr int64_t bands = 80;
  for (double hertz : {120.0, 440.0, 1000.0, 2500.0, 7000.0}) {
    const std::vector<float> got = log_mel(tone(hertz, 1), 4, 0.25, bands);
    const double wanted = mel(hertz) / mel(8000) * (bands + 1) - 1;  // position of the tone between the bands' middles
    for (int64_t frame = 0; frame < 4; ++frame) {
      const auto row = got.begin() + frame * bands;
      EXPECT_NEAR(static_cast<double>(std::max_element(row, row + bands) - row), wanted, 1.0) << hertz;
      EXPECT_NEAR(*std::max_element(row, row + bands), 1.95, 0.15) << hertz;
    }
  }
}

TEST(LogMel, TenTimesSofterIsTwoDecadesOfPowerLess) {
  const std::vector<float> loud = log_mel(tone(1000, 0.5), 1, 0.5, 40);
  const std::vector<float> soft = log_mel(tone(1000, 0.5, 0.1), 1, 0.5, 40);
  const auto most = static_cast<size_t>(std::max_element(loud.begin(), loud.end()) - loud.begin());
  EXPECT_NEAR(loud[most] - soft[most], 2.0 / 4, 1e-3);
}

TEST(LogMel, SilenceAndWhatIsPastTheEndAreTheFloor) {
  for (float value : log_mel(std::vector<float>(8000, 0.0f), 5, 0.1, 20)) EXPECT_EQ(value, kMelSilence);
  const std::vector<float> short_sound = log_mel(tone(500, 0.3), 6, 0.1, 20);
  EXPECT_GT(*std::max_element(short_sound.begin() + 40, short_sound.begin() + 60), 1);
  for (size_t i = 4 * 20; i < short_sound.size(); ++i) EXPECT_EQ(short_sound[i], kMelSilence);
  for (float value : log_mel({}, 2, 0.1, 20)) EXPECT_EQ(value, kMelSilence);
}

// No band is so narrow that no frequency of the transform falls into it.
TEST(LogMel, EveryBandHearsNoise) {
  std::vector<float> noise(16'000);
  uint32_t state = 1;
  for (float& value : noise) value = static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / (1 << 23) - 1;
  for (int64_t bands : {1, 20, 80, 256})
    for (float value : log_mel(noise, 2, 0.5, bands)) EXPECT_GT(value, 0) << bands;
}

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr ClipGrid kGrid{.seconds_per_frame = 1, .side = 4, .seconds_per_mel = 0.5, .bands = 5};

class StimulusClipTest : public ::testing::Test {
 protected:
  StimulusClip open(const ClipGrid& grid = kGrid) {
    return StimulusClip(video_, grid, cache_, [&](double) { ++decoding_; });
  }
  std::filesystem::path cached() const { return std::filesystem::directory_iterator(cache_)->path(); }

  TempFolder folder_;
  std::filesystem::path video_ = put_file(folder_ / "film.y4m", gray_video({0, 0, 255, 255, 128, 128}, 16, 16, 2));
  std::filesystem::path cache_ = folder_ / "cache";
  int decoding_ = 0;  // calls of progress
};

TEST_F(StimulusClipTest, IsDecodedOnceForAGrid) {
  const StimulusClip clip = open();
  EXPECT_NEAR(clip.seconds(), 3, 0.01);
  std::vector<std::byte> frame(4 * 4 * 3), mel(5 * sizeof(float));
  EXPECT_NO_THROW(clip.copy_mel(0, mel));
  clip.copy_frame(1.5, frame);
  EXPECT_NEAR(static_cast<double>(frame[0]), 255, 2);
  clip.copy_frame(100, frame);
  EXPECT_NEAR(static_cast<double>(frame[47]), 128, 2);
  EXPECT_THROW(clip.copy_frame(0, mel), InternalError);
  EXPECT_THAT(cached().filename().string(), ::testing::MatchesRegex("film-[0-9a-f]{16}\\.safetensors"));
  decoding_ = 0;
  open();
  EXPECT_EQ(decoding_, 0);
  open({.seconds_per_frame = 1, .side = 8, .seconds_per_mel = 0.5, .bands = 5});
  EXPECT_GT(decoding_, 0);
}

// A copy of a turned video has another name than before orientations were applied.
TEST_F(StimulusClipTest, PicturesAreAsPeopleSeeThem) {
  std::string pixels;  // white left, black right
  for (int i = 0; i < 8 * 8; ++i) pixels += std::string(3, i % 8 < 4 ? '\xff' : '\0');
  std::set<std::string> names;
  for (const int orientation : {1, 6}) {
    video_ = folder_ / "film.mov";
    ShownVideo video{.width = 8, .height = 8, .frames = 30};
    if (orientation != 1) video.matrix = matrix_of_orientation(orientation);
    write_shown_video(video_, pixels, video);
    std::filesystem::last_write_time(video_, std::filesystem::file_time_type());
    std::filesystem::remove_all(cache_);
    std::vector<std::byte> frame(4 * 4 * 3);
    open().copy_frame(1, frame);
    EXPECT_EQ(frame[0], std::byte{255});
    EXPECT_EQ(frame[9], std::byte(orientation == 1 ? 0 : 255));   // above right
    EXPECT_EQ(frame[36], std::byte(orientation == 1 ? 255 : 0));  // below left
    names.insert(cached().filename());
  }
  EXPECT_EQ(names.size(), 2u);
}

TEST_F(StimulusClipTest, SoundKeepsToTheBudgetOfData) {
  video_ = folder_ / "film.mkv";
  encode_video(video_, std::vector<int>(20, 128), 2);
  const auto open_within = [&](int64_t budget) {
    DataMemory memory(budget);
    const DataMemory::Scope scope(memory);
    open();
  };
  EXPECT_THAT(user_error_of([&] { open_within(100'000); }),
              AllOf(HasSubstr("film.mkv"), HasSubstr("2 seconds of sound")));
  EXPECT_NO_THROW(open_within(int64_t{1} << 20));
}

TEST_F(StimulusClipTest, WhatIsKeptIsCheckedToTheBit) {
  open();
  const std::string whole = get_file(cached());
  uint64_t header = 0;  // hash of names and sizes; its description of the tensors is checked against the grid
  std::memcpy(&header, whole.data(), sizeof header);
  for (size_t at = sizeof header + header; at < whole.size(); at += 7) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    put_file(cached(), damaged);
    EXPECT_THAT(user_error_of([&] { open(); }), HasSubstr(cached().filename().string())) << at;
  }
  put_file(cached(), whole.substr(0, whole.size() - 1));
  EXPECT_THAT(user_error_of([&] { open(); }), HasSubstr(cached().filename().string()));
  const std::string length = R"("plimsoll.seconds":"3)";
  std::string longer = whole;
  longer.replace(whole.find(length), length.size(), R"("plimsoll.seconds":"4)");
  put_file(cached(), longer);
  EXPECT_THAT(user_error_of([&] { open(); }), HasSubstr(cached().filename().string()));
  put_file(cached(), whole);
  EXPECT_NO_THROW(open());
}

TEST_F(StimulusClipTest, IsAnErrorWhereverAndWheneverItsCopyIsCut) {
  const ClipGrid grid{.seconds_per_frame = 1, .side = 40, .seconds_per_mel = 0.1, .bands = 50};
  open(grid);
  expect_no_zeros_when_cut<std::vector<std::byte>>(cached(), [&] {
    const StimulusClip clip = open(grid);
    std::vector<std::byte> all, frame(40 * 40 * 3), mel(50 * sizeof(float));
    for (const double seconds : {0.0, 1.0, 2.0, 0.5}) {
      clip.copy_frame(seconds, frame);
      clip.copy_mel(seconds, mel);
      all.insert(all.end(), frame.begin(), frame.end());
      all.insert(all.end(), mel.begin(), mel.end());
    }
    return all;
  });
}

// The most that a file of another program can claim: right checksums, and sizes that exceed the file.
TEST_F(StimulusClipTest, SizesAreHeldAgainstTheGrid) {
  open();
  const auto forge = [&](const std::vector<int64_t>& mel, const std::vector<int64_t>& frames) {
    const auto bytes_of = [](const std::vector<int64_t>& sizes, int64_t element) {
      for (int64_t size : sizes) element *= size;
      return std::vector<std::byte>(static_cast<size_t>(element));
    };
    const std::vector<std::byte> sound = bytes_of(mel, 4), pictures = bytes_of(frames, 1);
    const std::array<uint64_t, 2> hashes = {content_hash(sound), content_hash(pictures)};
    SafetensorsWriter writer(
        cached(),
        {{"mel", DType::float32, mel, {}}, {"frames", DType::uint8, frames, {}}, {"hashes", DType::int64, {2}, {}}},
        {{"plimsoll.seconds", "3"}});
    writer.write("mel", sound);
    writer.write("frames", pictures);
    writer.write("hashes", std::as_bytes(std::span(hashes)));
    writer.commit();
  };
  forge({6, 5}, {3, 4, 4, 3});
  EXPECT_NO_THROW(open());
  for (const std::vector<int64_t>& frames :
       {std::vector<int64_t>{1, 4, 1, 1}, {3, 4, 4, 1}, {3, 4, 3, 4}, {3, 2, 4, 3}, {0, 4, 4, 3}, {3, 4, 4}}) {
    forge({6, 5}, frames);
    EXPECT_THAT(user_error_of([&] { open(); }), AllOf(HasSubstr("film.y4m"), HasSubstr("is damaged")));
  }
  for (const std::vector<int64_t>& mel : {std::vector<int64_t>{6, 4}, {0, 5}, {6}, {6, 5, 1}}) {
    forge(mel, {3, 4, 4, 3});
    EXPECT_THAT(user_error_of([&] { open(); }), HasSubstr("delete this file"));
  }
}

}  // namespace
}  // namespace plimsoll
