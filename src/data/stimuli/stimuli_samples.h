// Samples of `data.type: stimuli`: a volume of an fMRI series, and what was shown in the time before it.
//
//     volume    0   1   2   3   4   5   6   7          of a run; delay 2, text_tokens 3
//     shown     a   a   b   b   b   c   c   c
//               -   -   the sample of volume 4 reads the words, pictures and sound of volumes 0, 1, 2
//     measured                  x   and its voxels
//
// What lies before a run's first volume is nothing: words of zeros, black, silence.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "data/sample_source.h"

namespace plimsoll {

/// What a sample consists of, as the model has it.
struct StimuliShape {
  int64_t voxels = 0;
  int64_t video_frames = 0, video_size = 0;    ///< over the window: "frames" [frames, 3, size, size], -1 black to 1
  int64_t audio_frames = 0, audio_mels = 0;    ///< over the window: "mel" [frames, mels], as log_mel() gives them
  int64_t text_tokens = 0, text_features = 0;  ///< the window's volumes, a vector each: "words" [tokens, features]
};

/// Reads the series and decodes the media. Whole runs are held out, the last ones, as many as come nearest to
/// config.test_fraction, and before them to config.validation_fraction, each at least one where it is above 0; of a
/// single run the end. Split::validation is the part that config.evaluate_on names. Voxels are standardised by the
/// volumes that are trained on. `progress` is told what takes long. Throws UserError for files that cannot be read, do
/// not go together or are not what `shape` asks for.
///
/// Baselines of "correlation" on the part held out: the training mean, which is 0; the mean of the volumes trained on
/// that have the same label; ridge_prediction() from the inputs that the model predicts voxels from, which are a
/// sample's words, frames and mel frames, fitted to the volumes trained on. Neither the model nor the regression gets
/// other volumes' voxels as inputs.
std::unique_ptr<SampleSource> stimuli_samples(const DataConfig& config, const StimuliShape& shape,
                                              const std::function<void(const std::string&, double)>& progress);

}  // namespace plimsoll
