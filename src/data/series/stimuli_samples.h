// Declares samples of stimuli and the fMRI responses to them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/series/fmri_series.h"

namespace plimsoll {

/// Volumes of a series, by number.
using Volumes = std::vector<int64_t>;

/// Subtracts each voxel's mean from every run, and with `line` also its best-fitting line, both from the volumes of the
/// run alone. `run` is each volume's run, never decreasing. Only `usable` volumes are read and changed.
void detrend(FmriSeries& series, const std::vector<int64_t>& run, const std::vector<char>& usable, bool line);

/// Gives each voxel mean 0 and deviation 1 over the volumes `over`, and scales all volumes by the same numbers. Voxels
/// that are constant over them become 0.
void standardize(FmriSeries& series, const Volumes& over);

// The samples of `data.type: stimuli`: a volume of an fMRI series, and the stimuli in the time before it.
//
//     volume    0   1   2   3   4   5   6   7          of a run; delay 2, text_tokens 3
//     shown     a   a   b   b   b   c   c   c
//               -   -   the sample of volume 4 reads the words, pictures and sound of volumes 0, 1, 2
//     measured                  x   and its voxels
//
// Before a run's first volume, words are zeros, pictures are black and sound is silent.

/// The shape of a sample as the model's inputs.
struct StimuliShape {
  int64_t voxels = 0;
  int64_t video_frames = 0, video_size = 0;    ///< over the window: "frames" [frames, 3, size, size], -1 black to 1
  int64_t audio_frames = 0, audio_mels = 0;    ///< over the window: "mel" [frames, mels], as log_mel() gives them
  int64_t text_tokens = 0, text_features = 0;  ///< vectors of the window's volumes: "words" [tokens, features]
};

/// Reads the series and decodes the media. hold_out_last_runs() and cover_labels() (data/series/run_split.h) hold out
/// whole runs by config.test_fraction and config.validation_fraction. Notes name the labels that a part lacks. The seed
/// matters only if the last runs lack a label that has room there. Split::validation is the part that
/// config.evaluate_on names. Voxels are standardized by the training volumes. `progress` is called during long work.
/// Throws UserError for files that cannot be read, do not fit together or do not have the sizes of `shape`.
std::unique_ptr<SampleSource> stimuli_samples(const DataConfig& config, const StimuliShape& shape,
                                              const std::function<void(const std::string&, double)>& progress,
                                              uint64_t seed = 0);

}  // namespace plimsoll
