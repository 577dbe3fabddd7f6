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

/// `data.type: stimuli`: volumes of an fMRI series, and what was seen, heard and read before each.
struct StimuliConfig {
  std::filesystem::path fmri;             ///< NIfTI (.nii, .nii.gz), or a table of time points x regions (.csv)
  std::filesystem::path mask;             ///< NIfTI of the same grid: its voxels that are not 0; empty: those that vary
  int64_t delay = 2;                      ///< volumes from a stimulus to its response
  std::string detrend = "linear";         ///< none | mean | linear: what is taken out of every run
  double repetition_time = 0;             ///< seconds from volume to volume; 0: as the file says
  std::filesystem::path texts;            ///< a line a volume: label, run; empty: one run without words
  std::filesystem::path text_embeddings;  ///< safetensors: a vector for each label
  std::filesystem::path videos;           ///< a film of the whole series, or a folder with a clip for each label
};

}  // namespace plimsoll
