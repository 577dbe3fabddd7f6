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

/// `data.type: slices`: slices of volumes with anatomical labels, in NIfTI files (data.files). A sample is a slice and
/// a structure that it shows: the image, a prompt that names the structure, its mask.
struct SlicesConfig {
  std::vector<std::filesystem::path> labels;    ///< a file for each of data.files, on the same grid
  std::filesystem::path label_names;            ///< lines of a label's number and its name
  std::vector<std::string> structures = {"*"};  ///< globs of the names that are asked for
  std::string axis = "z";                       ///< x | y | z: slices lie across it
  int64_t min_pixels = 16;                      ///< of a mask, at the model's image_size, to be a sample
  int64_t validation_block = 6;                 ///< neighbouring slices that are held out together
  int64_t validation_gap = 2;                   ///< slices on either side of them that are not used at all
  std::string prompt = "Segment the {}.";       ///< {} is the structure's name
  std::string answer = " It is here:";          ///< what the language model is to go on with
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
