// Declares pictures and sound of one media file, decoded once at the times that samples use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

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

}  // namespace plimsoll
