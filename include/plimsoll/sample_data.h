// Where samples that are not text come from: one configuration for each `data.type`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll {

/// `data.type: series`: sequences of vectors with a class each, in .ts files (data.files).
struct SeriesConfig {
  /// Held out whole; empty: the share data.validation_fraction of the files' series.
  std::vector<std::filesystem::path> validation_files;
  int64_t length = 100;                 ///< vectors of a series
  double train_ratio_of_vectors = 1.0;  ///< (0, 1]: how many of them a sample has
  bool pad = false;                     ///< shorter series and missing values are filled up with the mean
  std::string order = "time";           ///< time | hilbert
  int64_t hilbert_bits = 8;             ///< of each coordinate of the curve
  std::vector<int64_t> hilbert_axes;    ///< channels that are coordinates of the curve, -1: time; empty: time and all
  /// Vectors of a sample.
  int64_t vectors() const {
    return std::max<int64_t>(1, std::llround(static_cast<double>(length) * train_ratio_of_vectors));
  }
};

/// `data.type: slices`: slices of volumes with anatomical labels, in NIfTI files (data.files).
struct SlicesConfig {
  std::vector<std::filesystem::path> labels;
};

/// `data.type: clips`: clips of video files (data.files).
struct ClipsConfig {
  int64_t max_frames = 100;
};

/// `data.type: stimuli`: video, audio and text beside the fMRI series recorded with them.
struct StimuliConfig {
  std::filesystem::path fmri;
};

}  // namespace plimsoll
