// Declares the cache of a clip's decoded pictures, in a file: decoding takes longer than training on them.
//
//     "PLFRAMES" | format, key | bytes, hash of what follows | pictures, uint8 [frames, height, width, 3]
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/clips/clip_list.h"
#include "files/media_cache.h"

namespace plimsoll {

/// A clip's pictures and the file that stores them.
struct CachedClip {
  ClipTime time;
  uint64_t key = 0;            ///< hash of video, time, number, size and display of the pictures
  std::filesystem::path file;  ///< name such as "cockatoo-0123456789abcdef.frames"
};

/// Returns the clip of `frames` pictures of `size` x `size`, evenly spaced over `time`. `display` is the
/// video's display_key() (files/media_cache.h).
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
