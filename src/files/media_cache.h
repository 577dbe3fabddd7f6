// Names of files that keep what was decoded of a video or sound.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace plimsoll {

/// A video or sound file as it was when it was looked at.
struct VideoFile {
  std::filesystem::path path;  ///< canonical
  int64_t bytes = 0;
  int64_t changed_at = 0;  ///< nanoseconds, on the file system's clock

  /// Throws UserError (failure) that names the file.
  static VideoFile look_at(const std::filesystem::path& path);
};

/// Another number for another file, a file that was changed, or other `contents`: in words or numbers, all that decides
/// what is decoded of it, with a version that is raised whenever the same contents come out otherwise.
uint64_t media_cache_key(const VideoFile& file, std::string_view contents);

/// "FOLDER/cockatoo-0123456789abcdef.EXTENSION"
std::filesystem::path media_cache_path(const std::filesystem::path& folder, const VideoFile& file, uint64_t key,
                                       std::string_view extension);

}  // namespace plimsoll
