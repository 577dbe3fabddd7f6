// Where samples that are not text come from: one configuration for each `data.type`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll {

/// `data.type: series`: sequences of vectors with a class each, in .ts files (data.files).
struct SeriesConfig {
  std::vector<std::filesystem::path> validation_files;
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
