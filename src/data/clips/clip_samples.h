// Declares clips of videos with captions, as samples.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "data/sample_source.h"
#include "data/tokenizers/tokenizer.h"
#include "plimsoll/sample_data.h"

namespace plimsoll {

/// The shape of a clip as a step's inputs.
struct ClipShape {
  int64_t frames = 0;
  int64_t size = 0;    ///< height and width of a picture, in pixels
  int64_t tokens = 0;  ///< tokens of prompt and caption
  /// Mean and deviation of red, green and blue in [0, 1]: a picture's values are (color - mean) / std.
  std::array<double, 3> mean = {0.5, 0.5, 0.5}, std = {0.5, 0.5, 0.5};
};

/// Returns the clips of config.files or config.clips.list. The list decides for videos whose split it has; of each
/// other video, config.validation_fraction of the time is held out. Pictures that no earlier job has decoded are
/// decoded into config.cache_dir in this call. A sample is "frames", float32 [frames, 3, size, size] (in [-1, 1] unless
/// the shape says otherwise), "tokens" and "targets". Throws UserError for an unreadable file. With config.skip_bad the
/// file is left out, if at least one is left.
std::unique_ptr<SampleSource> clip_samples(const DataConfig& config, const Tokenizer& tokenizer, const ClipShape& shape,
                                           const std::function<void(double fraction)>& progress);

}  // namespace plimsoll
