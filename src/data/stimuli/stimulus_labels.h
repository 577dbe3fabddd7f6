// Declares the labels of the stimuli of an fMRI series.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace plimsoll {

struct StimulusLabels {
  std::vector<std::string> names;  ///< each once, in the order of first occurrence
  std::vector<int64_t> label;      ///< for each volume an index into names
  std::vector<int64_t> run;        ///< for each volume its run: 0, 1, ..., never decreasing
  std::vector<std::string> runs;   ///< names of the runs, as in the file
};

/// Reads one line for each volume: the label and the run ("chunk") of the volume, separated by blanks. Without runs all
/// volumes are of one run. Throws UserError that names file and line: unreadable, lines of different kinds, a
/// run that continues after another.
StimulusLabels read_stimulus_labels(const std::filesystem::path& path);

/// Reads the vector of each label of `names`, all of one length: tensors [features] of float32 in a safetensors file,
/// with the labels as names. Throws UserError (failure) that names the file and the missing label.
std::vector<std::vector<float>> read_label_vectors(const std::filesystem::path& path,
                                                   const std::vector<std::string>& names);

}  // namespace plimsoll
