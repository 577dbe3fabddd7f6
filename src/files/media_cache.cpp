#include "files/media_cache.h"

#include <fmt/format.h>

#include <chrono>

#include "base/file_error.h"
#include "base/hash.h"
#include "plimsoll/error.h"

namespace plimsoll {

VideoFile VideoFile::look_at(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw FileError(fmt::format("{} does not exist", path.string()));
  if (!std::filesystem::is_regular_file(status))
    throw FileError(fmt::format("{} is not a regular file", path.string()));
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) throw_file_error("read", path, error.value());
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) throw_file_error("read", path, error.value());
  const std::filesystem::path canonical = std::filesystem::canonical(path, error);
  if (error) throw_file_error("read", path, error.value());
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch());
  return {canonical, static_cast<int64_t>(bytes), static_cast<int64_t>(since.count())};
}

uint64_t media_cache_key(const VideoFile& file, std::string_view contents) {
  // The path comes last, because only it may have colons.
  return mix64(hash_bytes(fmt::format("{}:{}:{}:{}", contents, file.bytes, file.changed_at, file.path.string())));
}

std::string display_key(const VideoInfo& info) {
  const std::string seen = info.orientation == kUpright ? "" : fmt::format(":seen{}", info.orientation);
  return seen + (info.alpha ? ":white" : "");
}

std::filesystem::path media_cache_path(const std::filesystem::path& folder, const VideoFile& file, uint64_t key,
                                       std::string_view extension) {
  constexpr size_t longest = 100;  // with the key, within the limit of file systems
  return folder / fmt::format("{}-{:016x}.{}", file.path.stem().string().substr(0, longest), key, extension);
}

}  // namespace plimsoll
