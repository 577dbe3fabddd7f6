// The film of a series, or a clip for each label: what was seen and heard at a time.
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

/// May be read from any number of threads.
class StimulusMedia {
 public:
  StimulusMedia() = default;  ///< nothing to be seen or heard

  /// `videos`: a film, which begins with the series and lasts as long; or a folder of clips that have the labels' names
  /// ("face.mp4"). A clip begins where its label does and is repeated as long as the label stays; a label without one
  /// is black and silent. With `skip_bad` a clip that cannot be read is like none, and said in skipped(). Throws
  /// UserError that names the file: a film shorter than the series, two clips for a label, no clip for any.
  StimulusMedia(const std::filesystem::path& videos, const StimulusLabels& labels, double seconds_per_volume,
                const ClipGrid& grid, const std::filesystem::path& cache_dir, bool skip_bad,
                const std::function<void(const std::string&, double)>& progress);

  /// At `volumes` volumes after the beginning of the series, as StimulusClip has them; empty: nothing.
  std::span<const std::byte> frame(double volumes) const;
  std::span<const std::byte> mel(double volumes) const;

  const std::vector<std::string>& skipped() const { return skipped_; }

 private:
  const StimulusClip* clip_at(double volumes, double& seconds) const;

  std::vector<StimulusClip> clips_;
  std::vector<int64_t> clip_of_;  // of each volume: an index into clips_, or -1
  std::vector<int64_t> onset_;    // of each volume: where its clip began
  bool repeated_ = false;         // clips of labels are
  double seconds_per_volume_ = 0;
  std::vector<std::string> skipped_;
};

}  // namespace plimsoll
