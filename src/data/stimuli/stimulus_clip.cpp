#include "data/stimuli/stimulus_clip.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/content_hash.h"
#include "base/file_error.h"
#include "data/stimuli/mel_spectrogram.h"
#include "files/data_memory.h"
#include "files/media.h"
#include "files/media_cache.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr const char *kFrames = "frames", *kMel = "mel", *kSeconds = "plimsoll.seconds";
// content_hash of mel and of frames; the last tensor, because a header's checksums come before pictures that are still
// to be decoded.
constexpr const char* kHashes = "hashes";
constexpr int64_t kMaxGridPlaces = int64_t{1} << 24;
constexpr int64_t kPicturesAtATime = 256;

// Raised whenever the same file gets other pictures or sound for a reason that no number of the grid shows.
constexpr int kCacheFormat = 4;  // 4: pictures as people see them

/// Returns the number of whole steps of the grid within the file, at least one.
int64_t places(double seconds, double step) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::min(seconds / step, static_cast<double>(kMaxGridPlaces))));
}

std::filesystem::path cache_file(const std::filesystem::path& file, const ClipGrid& grid,
                                 const std::filesystem::path& cache_dir) {
  const VideoFile media = VideoFile::look_at(file);
  const uint64_t key =
      media_cache_key(media, fmt::format("stimuli:{}:{}:{}:{}:{}{}", kCacheFormat, grid.seconds_per_frame, grid.side,
                                         grid.seconds_per_mel, grid.bands, display_key(describe_video(file))));
  return media_cache_path(cache_dir, media, key, "safetensors");
}

void decode(const std::filesystem::path& file, const ClipGrid& grid, const std::filesystem::path& to,
            const std::function<void(double)>& progress) {
  const VideoInfo info = describe_video(file);
  if (!(info.seconds > 0))
    throw UserError(fmt::format("{} does not say how long it is", file.string()), UserError::Kind::failure);
  const int64_t frames = places(info.seconds, grid.seconds_per_frame),
                mels = places(info.seconds, grid.seconds_per_mel);
  if (frames == kMaxGridPlaces || mels == kMaxGridPlaces)
    throw UserError(fmt::format("{} is {:.0f} seconds long, too long for a picture or a mel frame every {:.2g} seconds",
                                file.string(), info.seconds, std::min(grid.seconds_per_frame, grid.seconds_per_mel)),
                    UserError::Kind::failure);
  SafetensorsWriter writer(to,
                           {{kMel, DType::float32, {mels, grid.bands}},
                            {kFrames, DType::uint8, {frames, grid.side, grid.side, 3}},
                            {kHashes, DType::int64, {2}}},
                           {{kSeconds, fmt::format("{}", info.seconds)}});
  progress(0);
  const double step = std::min(grid.seconds_per_frame, info.seconds);  // a short file is sampled at its middle
  if (info.audio)
    require_data_memory(file.string(), fmt::format("has {:.0f} seconds of sound", info.seconds),
                        info.seconds * kMelSampleRate * sizeof(float));
  const std::vector<float> sound = info.audio ? read_audio(file, kMelSampleRate) : std::vector<float>();
  const std::vector<float> mel = log_mel(sound, mels, grid.seconds_per_mel, grid.bands);
  std::array<uint64_t, 2> hashes = {content_hash(std::as_bytes(std::span(mel))), 0};
  writer.write(kMel, std::as_bytes(std::span(mel)));
  ContentHasher hasher;
  for (int64_t first = 0; first < frames; first += kPicturesAtATime) {
    std::vector<double> times;
    for (int64_t i = first; i < std::min(frames, first + kPicturesAtATime); ++i)
      times.push_back((static_cast<double>(i) + 0.5) * step);
    const std::vector<uint8_t> pictures = read_frames(file, times, grid.side, grid.side);
    writer.write(kFrames, std::as_bytes(std::span(pictures)));
    hasher.update(std::as_bytes(std::span(pictures)));
    progress(static_cast<double>(first + std::ssize(times)) / static_cast<double>(frames));
  }
  hashes[1] = hasher.digest();
  writer.write(kHashes, std::as_bytes(std::span(hashes)));
  writer.commit();
}

// Returns true if the file holds the result of decode() for this grid. The header has its own checksum, and sizes are
// compared as well: a file from another program may have no checksum.
bool whole(const SafetensorsFile& file, const ClipGrid& grid) {
  const auto has = [&](const char* name, DType dtype, const std::vector<int64_t>& sizes) {
    const auto found = file.tensors().find(name);
    if (found == file.tensors().end() || found->second.dtype != dtype) return false;
    const std::vector<int64_t>& stored = found->second.sizes;
    if (stored.size() != sizes.size() || stored[0] < 1) return false;
    return std::equal(stored.begin() + 1, stored.end(), sizes.begin() + 1);  // the number of times is the file's own
  };
  if (!has(kMel, DType::float32, {0, grid.bands}) || !has(kFrames, DType::uint8, {0, grid.side, grid.side, 3}) ||
      !has(kHashes, DType::int64, {2}))
    return false;
  file.verify();
  std::array<uint64_t, 2> hashes;
  const StoredTensor& stored = file.tensors().at(kHashes);
  if (stored.bytes.size() != sizeof hashes) return false;
  std::memcpy(hashes.data(), stored.bytes.data(), sizeof hashes);
  return hashes[0] == content_hash(file.tensors().at(kMel).bytes) &&
         hashes[1] == content_hash(file.tensors().at(kFrames).bytes);
}

}  // namespace

StimulusClip::StimulusClip(const std::filesystem::path& file, const ClipGrid& grid,
                           const std::filesystem::path& cache_dir, const std::function<void(double)>& progress)
    : grid_(grid) {
  std::error_code error;
  std::filesystem::create_directories(cache_dir, error);
  if (error) throw_file_error("make the folder", cache_dir, error.value());
  const std::filesystem::path cached = cache_file(file, grid, cache_dir);
  if (!std::filesystem::exists(cached)) decode(file, grid, cached, progress);
  file_.emplace(SafetensorsFile::open(cached));
  const auto length = file_->metadata().find(kSeconds);
  if (length != file_->metadata().end())
    std::from_chars(length->second.data(), length->second.data() + length->second.size(), seconds_);
  if (!whole(*file_, grid) || !(seconds_ > 0))
    throw UserError(fmt::format("the decoded copy of {} is damaged: {}; delete this file, the next run writes it again",
                                file.string(), cached.string()),
                    UserError::Kind::failure);
}

void StimulusClip::copy_frame(double seconds, std::span<std::byte> out) const {
  copy_row(kFrames, seconds / grid_.seconds_per_frame, out);
}

void StimulusClip::copy_mel(double seconds, std::span<std::byte> out) const {
  copy_row(kMel, seconds / grid_.seconds_per_mel, out);
}

void StimulusClip::copy_row(const char* tensor, double row, std::span<std::byte> out) const {
  const StoredTensor& stored = file_->tensors().at(tensor);
  const size_t size = stored.bytes.size() / static_cast<size_t>(stored.sizes[0]);
  check(out.size() == size, "a row of a clip is copied to a place of another size");
  const auto place = std::min(static_cast<int64_t>(row), stored.sizes[0] - 1);
  std::ranges::copy(stored.bytes.subspan(static_cast<size_t>(place) * size, size), out.begin());
  file_->require_whole();
}

}  // namespace plimsoll
