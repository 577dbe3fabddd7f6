// Declares samples of video clips with captions, and the cache of their decoded frames.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/clips/clip_list.h"
#include "data/text/tokenizer.h"
#include "files/media.h"
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

// The cache of a clip's decoded pictures, in a file: decoding takes longer than training on them.
//
//     "PLFRAMES" | format, key | bytes, hash of what follows | pictures, uint8 [frames, height, width, 3]

/// A clip's pictures and the file that stores them.
struct CachedClip {
  ClipTime time;
  uint64_t key = 0;            ///< hash of video, time, number, size and display of the pictures
  std::filesystem::path file;  ///< name such as "cockatoo-0123456789abcdef.frames"
};

/// Returns the clip of `frames` pictures of `size` x `size`, evenly spaced over `time`. `display` is the
/// video's display_key() (files/media.h).
CachedClip cached_clip(const std::filesystem::path& directory, const VideoFile& video, ClipTime time, int64_t frames,
                       int64_t size, const std::string& display = "");

/// Decodes the clips of a video that are not stored yet, several at a time; `done` is called with the number of clips
/// that are. Throws UserError if the video cannot be read or a file cannot be written.
void decode_clips(const VideoFile& video, const std::vector<CachedClip>& clips, int64_t frames, int64_t size,
                  const std::function<void(int64_t clips)>& done);

/// Throws UserError (failure) if the file is missing, damaged or of another clip. The error names the file, and says to
/// delete it.
std::vector<uint8_t> read_clip(const CachedClip& clip, int64_t frames, int64_t size);

}  // namespace plimsoll
