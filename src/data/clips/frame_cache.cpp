#include "data/clips/frame_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/hash.h"
#include "files/data_memory.h"
#include "files/media.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr char kMagic[8] = {'P', 'L', 'F', 'R', 'A', 'M', 'E', 'S'};
// Raised whenever the same clip gets other pictures: other times, or another scaling.
constexpr uint64_t kCacheFormat = 2;           // 2: pictures as people see them
constexpr int64_t kDecodedAtOnce = 256 * MiB;  // bytes of pictures in memory

struct Header {
  char magic[8];
  uint64_t format, key, bytes, hash;
};
static_assert(sizeof(Header) == 40);

std::span<const std::byte> bytes_of(const std::vector<uint8_t>& pixels) {
  return std::as_bytes(std::span(pixels));
}

[[noreturn]] void refuse(const CachedClip& clip, const char* what) {
  throw UserError(fmt::format("the frames in {} {}; delete the file, it is made again", clip.file.string(), what),
                  UserError::Kind::failure);
}

// Returns true if there is a file of the clip's size; its content is checked when it is read.
bool kept(const CachedClip& clip, uint64_t bytes) {
  std::error_code error;
  const auto size = std::filesystem::file_size(clip.file, error);
  return !error && size == sizeof(Header) + bytes;
}

void write_clip(const CachedClip& clip, std::span<const std::byte> pixels) {
  Header header{{}, kCacheFormat, clip.key, pixels.size(), content_hash(pixels)};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  AtomicFile file(clip.file);
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(pixels);
  file.commit();
}

}  // namespace

CachedClip cached_clip(const std::filesystem::path& directory, const VideoFile& video, ClipTime time, int64_t frames,
                       int64_t size, const std::string& display) {
  // The word separates the keys from those of other caches.
  const uint64_t key = media_cache_key(
      video, fmt::format("frames:{}:{}:{}:{}:{}{}", kCacheFormat, time.start, time.end, frames, size, display));
  return {time, key, media_cache_path(directory, video, key, "frames")};
}

void decode_clips(const VideoFile& video, const std::vector<CachedClip>& clips, int64_t frames, int64_t size,
                  const std::function<void(int64_t clips)>& done) {
  const int64_t picture = size * size * 3, clip_bytes = frames * picture;
  std::vector<const CachedClip*> missing;
  for (const CachedClip& clip : clips)
    if (!kept(clip, static_cast<uint64_t>(clip_bytes))) missing.push_back(&clip);
  int64_t there = std::ssize(clips) - std::ssize(missing);
  done(there);
  // Several clips in one pass over the video: a seek decodes from the key frame before it.
  const auto decoded = static_cast<int64_t>(std::min<double>(kDecodedAtOnce, data_memory_left()));
  const auto at_once =
      static_cast<size_t>(std::clamp<int64_t>(std::min(decoded / clip_bytes, kMaxPictures / frames), 1, 1024));
  for (size_t first = 0; first < missing.size(); first += at_once) {
    const std::span group = std::span(missing).subspan(first, std::min(at_once, missing.size() - first));
    std::vector<double> seconds;
    for (const CachedClip* clip : group) {
      const std::vector<double> these = evenly_spaced(clip->time.start, clip->time.end, frames);
      seconds.insert(seconds.end(), these.begin(), these.end());
    }
    std::ranges::sort(seconds);
    seconds.erase(std::unique(seconds.begin(), seconds.end()), seconds.end());
    const std::vector<uint8_t> pixels = read_frames(video.path, seconds, size, size);
    std::vector<uint8_t> own(static_cast<size_t>(clip_bytes));
    for (const CachedClip* clip : group) {
      const std::vector<double> these = evenly_spaced(clip->time.start, clip->time.end, frames);
      for (size_t i = 0; i < these.size(); ++i) {
        const auto at = std::ranges::lower_bound(seconds, these[i]) - seconds.begin();
        std::copy_n(pixels.begin() + at * picture, picture, own.begin() + static_cast<int64_t>(i) * picture);
      }
      write_clip(*clip, bytes_of(own));
      done(++there);
    }
  }
}

std::vector<uint8_t> read_clip(const CachedClip& clip, int64_t frames, int64_t size) {
  const auto bytes = static_cast<uint64_t>(frames * size * size * 3);
  errno = 0;
  std::ifstream stream(clip.file, std::ios::binary);
  if (!stream) throw_file_error("read", clip.file, errno != 0 ? errno : EIO, UserError::Kind::failure);
  Header header{};
  std::vector<uint8_t> pixels(bytes);
  stream.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!stream || std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.format != kCacheFormat ||
      header.key != clip.key || header.bytes != bytes)
    refuse(clip, "are of another clip");
  stream.read(reinterpret_cast<char*>(pixels.data()), static_cast<std::streamsize>(bytes));
  if (!stream || content_hash(bytes_of(pixels)) != header.hash) refuse(clip, "are damaged");
  return pixels;
}

}  // namespace plimsoll
