// Names the files that keep decoded contents of a video or sound.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "files/media.h"

namespace plimsoll {

/// A video or sound file at the time of look_at().
struct VideoFile {
  std::filesystem::path path;  ///< canonical
  int64_t bytes = 0;
  int64_t changed_at = 0;  ///< nanoseconds, on the file system's clock

  /// Reads path, size and time of change. Throws UserError that names the file.
  static VideoFile look_at(const std::filesystem::path& path);
};

/// Returns a key that differs for another file, a changed file, or other `contents`. `contents` describes, as text or
/// numbers, all that decides the decoded bytes; it has a version that is raised whenever decoding changes.
uint64_t media_cache_key(const VideoFile& file, std::string_view contents);

/// Returns a text for `contents` of what is applied to the stored pictures so that they are read as people see them:
/// ":seen6", ":white"; "" if nothing is, so that such pictures keep the keys that they had before this was applied.
std::string display_key(const VideoInfo& info);

/// Returns "FOLDER/cockatoo-0123456789abcdef.EXTENSION".
std::filesystem::path media_cache_path(const std::filesystem::path& folder, const VideoFile& file, uint64_t key,
                                       std::string_view extension);

}  // namespace plimsoll
