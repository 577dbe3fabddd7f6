#include "data/stimuli/mel_spectrogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

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

}  // namespace
}  // namespace plimsoll
