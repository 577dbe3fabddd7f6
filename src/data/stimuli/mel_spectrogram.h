// Computes a log-mel spectrogram of sound.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

/// Sample rate of the analyzed sound, in samples a second.
inline constexpr int64_t kMelSampleRate = 16'000;

/// Value of silence: the lower bound of log_mel's values.
inline constexpr float kMelSilence = -1;

/// Returns `frames` frames of `seconds_per_frame` each, [frames, bands]. Power is measured in 25 ms windows (Hann)
/// every 10 ms or less, in triangular bands that are evenly spaced on Slaney's mel scale from 0 to 8 kHz ("Auditory
/// Toolbox", 1998), and averaged over the frame. The value is (log10(power) + 4) / 4 with the power at least 1e-8, as
/// speech models use it (Radford and others, "Robust speech recognition via large-scale weak supervision", 2022): a
/// full-scale tone is about 2. Frames after the end of the sound are silent.
std::vector<float> log_mel(std::span<const float> samples, int64_t frames, double seconds_per_frame, int64_t bands);

}  // namespace plimsoll
