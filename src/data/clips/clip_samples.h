// Declares clips of videos with captions, as samples, and the captions as tokens.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/sample_source.h"
#include "data/text/tokenizer.h"
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

/// Tokens of prompt, caption and end of text, and their targets, shifted by one. Targets in the prompt and in padding
/// are -100.
struct CaptionTokens {
  std::vector<int64_t> tokens, targets;  ///< each of the sequence length
  std::vector<int32_t> caption;          ///< the tokens to learn, with the end of text
};

/// Throws UserError that names `place` if prompt and caption are longer than `length` tokens.
CaptionTokens caption_tokens(const Tokenizer& tokenizer, const std::string& prompt, const std::string& caption,
                             int64_t length, const std::string& place);

}  // namespace plimsoll
