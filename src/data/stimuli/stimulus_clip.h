// Pictures and sound of one media file, at the places in time where samples look, decoded once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

#include "safetensors/safetensors.h"

namespace plimsoll {

/// The grid in time, and what is kept at each of its places.
struct ClipGrid {
  double seconds_per_frame = 1;  ///< of pictures
  int64_t side = 0;              ///< height and width of a picture
  double seconds_per_mel = 1;    ///< of the spectrogram
  int64_t bands = 0;
};

/// A file is decoded where no earlier job has: its pictures and spectrogram lie in `cache_dir` (made when it is
/// missing) under a name made of the file's path, size and time of change and of the grid, and are mapped from there.
/// May be read from any number of threads.
class StimulusClip {
 public:
  /// `progress` gets the fraction decoded; not called where there is nothing to do. Throws UserError (failure) that
  /// names the file; checks what is kept against its checksums, which reads it once.
  StimulusClip(const std::filesystem::path& file, const ClipGrid& grid, const std::filesystem::path& cache_dir,
               const std::function<void(double fraction)>& progress);

  double seconds() const { return seconds_; }  ///< length of the file

  /// The picture shown at that time, uint8 [side, side, 3]; `seconds` is at least 0, after the end it is the last one.
  std::span<const std::byte> frame(double seconds) const;

  /// The spectrogram at that time, float32 [bands], aligned to nothing.
  std::span<const std::byte> mel(double seconds) const;

 private:
  std::optional<SafetensorsFile> file_;  // always there
  ClipGrid grid_;
  double seconds_ = 0;
};

}  // namespace plimsoll
