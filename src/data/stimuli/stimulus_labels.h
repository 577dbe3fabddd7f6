// What was shown while an fMRI series was recorded, in words.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace plimsoll {

struct StimulusLabels {
  std::vector<std::string> names;  ///< each once, in the order in which they come first
  std::vector<int64_t> label;      ///< of each volume: an index into names
  std::vector<int64_t> run;        ///< of each volume: 0, 1, ..., never falling
  std::vector<std::string> runs;   ///< their names, as the file has them
};

/// A line a volume: the label, and the run ("chunk") that the volume belongs to, between blanks; without runs all
/// volumes are of one. Throws UserError (failure) that names file and line: unreadable, lines of different kinds, a run
/// that goes on after another.
StimulusLabels read_stimulus_labels(const std::filesystem::path& path);

/// The vector of each label of `names`, all of one length: tensors [features] of float32 in a safetensors file, named
/// as the labels are. Throws UserError (failure) that names the file and the label that it lacks.
std::vector<std::vector<float>> read_label_vectors(const std::filesystem::path& path,
                                                   const std::vector<std::string>& names);

}  // namespace plimsoll
