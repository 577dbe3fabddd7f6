// Sound as a log-mel spectrogram.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

/// The rate that sound is analysed at, samples a second.
inline constexpr int64_t kMelSampleRate = 16'000;

/// What silence comes to: the floor of log_mel's values.
inline constexpr float kMelSilence = -1;

/// `frames` frames of `seconds_per_frame` each, [frames, bands]: the power in 25 ms windows (Hann) every 10 ms or less,
/// in triangular bands that are even on Slaney's mel scale from 0 to 8 kHz ("Auditory Toolbox", 1998), averaged
/// over the frame; then (log10(power) + 4) / 4 with the power at least 1e-8, as speech models take it (Radford and
/// others, "Robust speech recognition via large-scale weak supervision", 2022): a full-scale tone is about 2. Frames
/// after the end of the sound are silent.
std::vector<float> log_mel(std::span<const float> samples, int64_t frames, double seconds_per_frame, int64_t bands);

}  // namespace plimsoll
