// Declares the labels of the stimuli of an fMRI series, and features of the stimuli that were computed before.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "files/file_kind.h"
#include "files/npy.h"

namespace plimsoll {

/// The labels of the stimuli of an fMRI series.
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

/// Rows of features of the stimuli (pictures, sound or text) that were computed before, evenly spaced over a series,
/// the same number for each volume. Any number of threads may read it.
class StimulusFeatures {
 public:
  StimulusFeatures() = default;  ///< no features

  /// Reads a .npy file of [n x volumes, row...]: n rows for each volume, each of the sizes `row`. `key`
  /// ("data.text_features") is named in messages. Throws UserError that names the file: unreadable, of other sizes,
  /// numbers that are not finite.
  StimulusFeatures(const std::filesystem::path& file, const std::string& key, const std::vector<int64_t>& row,
                   int64_t volumes);

  bool given() const { return rows_ > 0; }
  bool bytes() const { return array_.type == NpyType::uint8; }

  /// Returns the row at `volumes` volumes after the beginning of the series; -1: there is none.
  int64_t row_at(double volumes) const;
  /// Returns number `i` of a row, in C order.
  float number(int64_t row, int64_t i) const { return static_cast<float>(array_.at(row * width_ + i)); }

 private:
  NpyArray array_;
  int64_t rows_ = 0, width_ = 1, per_volume_ = 1;
};

}  // namespace plimsoll

namespace plimsoll::stimuli {

/// The treatment of each part of the files next to an fMRI series (data.type stimuli).
inline constexpr FileFact kFacts[] = {
    {"list of labels", "label, run", "applied", "of each line; lines of one run follow one another"},
    {"list of labels", "separator", "applied", "blanks; a comma or semicolon before a number is refused"},
    {"mask of a series", "voxels", "applied",
     "other than 0, with a note if these have several numbers; the mask must lie on the grid of the series"},
    {"NAME.json of NAME.nii (BIDS)", "RepetitionTime", "applied",
     "another time than the header's is refused, unless data.repetition_time is set"},
    {"NAME.json of NAME.nii (BIDS)", "VolumeTiming", "refused", "unless data.repetition_time is set"},
    {"NAME.json of NAME.nii (BIDS)", "all others", "ignored", "how the series was recorded"},
    {"vectors of labels (safetensors)", "tensor of each label", "applied",
     "float32 [features], of one length, finite; a label without a vector is refused"},
    {"vectors of labels (safetensors)", "tensors of other labels", "ignored", "one file may serve several series"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::stimuli
