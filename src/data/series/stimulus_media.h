// Declares the media of a series, a film or a clip for each label: pictures, sound and its log-mel spectrogram,
// decoded once at the times that samples use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/series/stimulus_labels.h"
#include "safetensors/safetensors.h"

namespace plimsoll {

/// The grid in time, and the sizes of the data at each of its steps.
struct ClipGrid {
  double seconds_per_frame = 1;  ///< time between pictures
  int64_t side = 0;              ///< height and width of a picture, in pixels
  double seconds_per_mel = 1;    ///< time between columns of the spectrogram
  int64_t bands = 0;
};

/// The decoded pictures and spectrogram of a file. They are stored in `cache_dir` (made if it is missing) and mapped
/// from there; a file is decoded only if no earlier job has done so. The name in the cache is made of the file's path,
/// size and time of change, of its orientation and of the grid. Any number of threads may read it.
class StimulusClip {
 public:
  /// `progress` receives the decoded fraction; it is not called if nothing is to be decoded. Throws UserError (failure)
  /// that names the file. Verifies the checksums of a cached file, which reads it once.
  StimulusClip(const std::filesystem::path& file, const ClipGrid& grid, const std::filesystem::path& cache_dir,
               const std::function<void(double fraction)>& progress);

  double seconds() const { return seconds_; }  ///< length of the file, in seconds

  /// Copies the picture at a time to `out`, uint8 [side, side, 3]; `seconds` is at least 0, and after the end the last
  /// picture is copied. Throws UserError (failure) that names the cached file if it has lost bytes.
  void copy_frame(double seconds, std::span<std::byte> out) const;

  /// Copies the spectrogram at a time to `out`, float32 [bands]. Throws as copy_frame() does.
  void copy_mel(double seconds, std::span<std::byte> out) const;

 private:
  void copy_row(const char* tensor, double row, std::span<std::byte> out) const;

  std::optional<SafetensorsFile> file_;  // never empty
  ClipGrid grid_;
  double seconds_ = 0;
};

/// The media of a series. Any number of threads may read it.
class StimulusMedia {
 public:
  StimulusMedia() = default;  ///< black and silent

  /// Reads `videos`: a film, which begins with the series and has the same length; or a folder of clips with the
  /// labels' names ("face.mp4"). A clip begins with its label and repeats as long as the label stays; a label without a
  /// clip is black and silent. With `skip_bad` an unreadable clip counts as missing, and skipped() names it. Throws
  /// UserError that names the file: a film shorter than the series, two clips for a label, no clip for any.
  StimulusMedia(const std::filesystem::path& videos, const StimulusLabels& labels, double seconds_per_volume,
                const ClipGrid& grid, const std::filesystem::path& cache_dir, bool skip_bad,
                const std::function<void(const std::string&, double)>& progress);

  /// Copies the picture or sound at `volumes` volumes after the beginning of the series, as StimulusClip does. Returns
  /// false if there is none; then `out` keeps its bytes.
  bool copy_frame(double volumes, std::span<std::byte> out) const;
  bool copy_mel(double volumes, std::span<std::byte> out) const;

  const std::vector<std::string>& skipped() const { return skipped_; }

 private:
  const StimulusClip* clip_at(double volumes, double& seconds) const;

  std::vector<StimulusClip> clips_;
  std::vector<int64_t> clip_of_;  // for each volume an index into clips_, or -1
  std::vector<int64_t> onset_;    // for each volume the first volume of its clip
  bool repeated_ = false;         // true for clips of labels
  double seconds_per_volume_ = 0;
  std::vector<std::string> skipped_;
};

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
