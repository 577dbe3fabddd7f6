#include "data/stimuli/mel_spectrogram.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <memory>
#include <numbers>

#include "files/fourier_transform.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kWindow = kMelSampleRate / 40;  // 25 ms
constexpr int64_t kHop = kMelSampleRate / 100;    // 10 ms
constexpr int64_t kMinTransformLength = 512;
constexpr double kMaxFrequency = kMelSampleRate / 2.0;
constexpr double kFloor = 1e-8;

// Converts by Slaney's scale: linear below 1 kHz, logarithmic above.
constexpr double kHertzPerMel = 200.0 / 3, kBend = 1000;
const double kLogStep = std::log(6.4) / 27;

double mel_of(double hertz) {
  return hertz < kBend ? hertz / kHertzPerMel : kBend / kHertzPerMel + std::log(hertz / kBend) / kLogStep;
}
double hertz_of(double mel) {
  const double bend = kBend / kHertzPerMel;
  return mel < bend ? mel * kHertzPerMel : kBend * std::exp((mel - bend) * kLogStep);
}

class Bands {
 public:
  explicit Bands(int64_t count) {
    const double step = mel_of(kMaxFrequency) / static_cast<double>(count + 1);
    // The lowest bands are the narrowest; each of their slopes has at least one bin.
    int64_t size = kMinTransformLength;
    while (kMelSampleRate / static_cast<double>(size) > hertz_of(step)) size *= 2;
    values_.resize(static_cast<size_t>(size));
    transform_ = make_fourier_transform(size);
    for (int64_t i = 0; i < count + 2; ++i) edges_.push_back(hertz_of(step * static_cast<double>(i)));
  }

  /// Adds the power of a window around sample `center` to `powers`, one for each band.
  void add(std::span<const float> samples, int64_t center, std::vector<double>& powers) {
    std::ranges::fill(values_, 0);
    for (int64_t i = 0; i < kWindow; ++i) {
      const int64_t at = center - kWindow / 2 + i;
      if (at < 0 || at >= std::ssize(samples)) continue;
      const double hann = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / kWindow);
      values_[static_cast<size_t>(i)] = hann * static_cast<double>(samples[static_cast<size_t>(at)]);
    }
    const std::span<const std::complex<double>> spectrum = transform_->of(values_);
    const double bin = kMelSampleRate / static_cast<double>(values_.size());
    for (size_t band = 0; band < powers.size(); ++band) {
      const double low = edges_[band], middle = edges_[band + 1], high = edges_[band + 2];
      for (auto k = static_cast<size_t>(std::ceil(low / bin)); static_cast<double>(k) * bin < high; ++k) {
        const double hertz = static_cast<double>(k) * bin;
        const double weight = hertz < middle ? (hertz - low) / (middle - low) : (high - hertz) / (high - middle);
        powers[band] += weight * std::norm(spectrum[k]);
      }
    }
  }

 private:
  std::vector<double> edges_;
  std::vector<std::complex<double>> values_;
  std::unique_ptr<FourierTransform> transform_;
};

}  // namespace

std::vector<float> log_mel(std::span<const float> samples, int64_t frames, double seconds_per_frame, int64_t bands) {
  check(frames >= 0 && seconds_per_frame > 0 && bands >= 1, "a spectrogram of no frames or bands");
  Bands transformed(bands);
  std::vector<float> mel(static_cast<size_t>(frames * bands), kMelSilence);
  const double samples_per_frame = seconds_per_frame * kMelSampleRate;
  for (int64_t frame = 0; frame < frames; ++frame) {
    const double begin = static_cast<double>(frame) * samples_per_frame;
    if (begin >= static_cast<double>(samples.size())) break;
    const auto windows = static_cast<int64_t>(std::ceil(samples_per_frame / static_cast<double>(kHop)));
    std::vector<double> powers(static_cast<size_t>(bands), 0.0);
    for (int64_t i = 0; i < windows; ++i) {
      const double at = begin + samples_per_frame * (static_cast<double>(i) + 0.5) / static_cast<double>(windows);
      transformed.add(samples, static_cast<int64_t>(at), powers);
    }
    for (int64_t band = 0; band < bands; ++band) {
      const double power = std::max(powers[static_cast<size_t>(band)] / static_cast<double>(windows), kFloor);
      mel[static_cast<size_t>(frame * bands + band)] = static_cast<float>((std::log10(power) + 4) / 4);
    }
  }
  return mel;
}

}  // namespace plimsoll
