// Declares the media of a series, a film or a clip for each label: the picture and sound at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/stimuli/stimulus_clip.h"
#include "data/stimuli/stimulus_labels.h"

namespace plimsoll {

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

}  // namespace plimsoll
