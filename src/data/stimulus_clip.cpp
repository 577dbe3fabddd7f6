#include "data/stimulus_clip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <vector>

#include "base/file_error.h"
#include "data/hash.h"
#include "data/media.h"
#include "data/mel_spectrogram.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr const char *kFrames = "frames", *kMel = "mel", *kSeconds = "plimsoll.seconds";
constexpr int64_t kMostGridPlaces = int64_t{1} << 24;
constexpr int64_t kPicturesAtATime = 256;

// Raised whenever the same file gets other pictures or sound for a reason that no number of the grid shows.
constexpr int kCacheFormat = 1;

/// Whole places of the grid within the file, at least one.
int64_t places(double seconds, double step) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::min(seconds / step, static_cast<double>(kMostGridPlaces))));
}

std::filesystem::path cache_file(const std::filesystem::path& file, const ClipGrid& grid,
                                 const std::filesystem::path& cache_dir) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::canonical(file, error);
  if (error) throw_file_error("read", file, error.value());
  const auto bytes = std::filesystem::file_size(absolute, error);
  if (error) throw_file_error("read", file, error.value());
  const auto time = std::filesystem::last_write_time(absolute, error);
  if (error) throw_file_error("read", file, error.value());
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  const uint64_t key =
      mix64(hash_bytes(fmt::format("{}:{}:{}:{}:{}:{}:{}:{}", kCacheFormat, bytes, since, grid.seconds_per_frame,
                                   grid.side, grid.seconds_per_mel, grid.bands, absolute.string())));
  return cache_dir / fmt::format("{}-{:016x}.safetensors", file.filename().string().substr(0, 100), key);
}

void decode(const std::filesystem::path& file, const ClipGrid& grid, const std::filesystem::path& to,
            const std::function<void(double)>& progress) {
  const VideoInfo info = describe_video(file);
  if (!(info.seconds > 0))
    throw UserError(fmt::format("{} does not say how long it is", file.string()), UserError::Kind::failure);
  const int64_t frames = places(info.seconds, grid.seconds_per_frame),
                mels = places(info.seconds, grid.seconds_per_mel);
  if (frames == kMostGridPlaces || mels == kMostGridPlaces)
    throw UserError(fmt::format("{} is {:.0f} seconds long, too long for a picture or a mel frame every {:.2g} seconds",
                                file.string(), info.seconds, std::min(grid.seconds_per_frame, grid.seconds_per_mel)),
                    UserError::Kind::failure);
  SafetensorsWriter writer(
      to, {{kMel, DType::float32, {mels, grid.bands}}, {kFrames, DType::uint8, {frames, grid.side, grid.side, 3}}},
      {{kSeconds, fmt::format("{}", info.seconds)}});
  progress(0);
  const double step = std::min(grid.seconds_per_frame, info.seconds);  // a short file has its middle looked at
  const std::vector<float> sound = info.audio ? read_audio(file, kMelSampleRate) : std::vector<float>();
  const std::vector<float> mel = log_mel(sound, mels, grid.seconds_per_mel, grid.bands);
  writer.write(kMel, std::as_bytes(std::span(mel)));
  for (int64_t first = 0; first < frames; first += kPicturesAtATime) {
    std::vector<double> times;
    for (int64_t i = first; i < std::min(frames, first + kPicturesAtATime); ++i)
      times.push_back((static_cast<double>(i) + 0.5) * step);
    const std::vector<uint8_t> pictures = read_frames(file, times, grid.side, grid.side);
    writer.write(kFrames, std::as_bytes(std::span(pictures)));
    progress(static_cast<double>(first + std::ssize(times)) / static_cast<double>(frames));
  }
  writer.commit();
}

SafetensorsFile decoded(const std::filesystem::path& file, const ClipGrid& grid, const std::filesystem::path& cache_dir,
                        const std::function<void(double)>& progress) {
  std::error_code error;
  std::filesystem::create_directories(cache_dir, error);
  if (error) throw_file_error("make the folder", cache_dir, error.value());
  const std::filesystem::path cached = cache_file(file, grid, cache_dir);
  if (!std::filesystem::exists(cached)) decode(file, grid, cached, progress);
  return SafetensorsFile::open(cached);
}

}  // namespace

StimulusClip::StimulusClip(const std::filesystem::path& file, const ClipGrid& grid,
                           const std::filesystem::path& cache_dir, const std::function<void(double)>& progress)
    : file_(decoded(file, grid, cache_dir, progress)), grid_(grid) {
  const auto tensor = [&](const char* name, DType dtype, size_t dimensions, int64_t last) {
    const auto found = file_.tensors().find(name);
    return found != file_.tensors().end() && found->second.dtype == dtype && found->second.sizes.size() == dimensions &&
           found->second.sizes[0] > 0 && found->second.sizes[1] == last;
  };
  const auto length = file_.metadata().find(kSeconds);
  if (length != file_.metadata().end())
    std::from_chars(length->second.data(), length->second.data() + length->second.size(), seconds_);
  if (!tensor(kFrames, DType::uint8, 4, grid.side) || !tensor(kMel, DType::float32, 2, grid.bands) || !(seconds_ > 0))
    throw UserError(fmt::format("what was decoded of {} into {} is not as it was written; delete that folder",
                                file.string(), cache_dir.string()),
                    UserError::Kind::failure);
}

std::span<const std::byte> StimulusClip::frame(double seconds) const {
  const StoredTensor& frames = file_.tensors().at(kFrames);
  const auto size = static_cast<size_t>(grid_.side * grid_.side * 3);
  const auto place = std::min(static_cast<int64_t>(seconds / grid_.seconds_per_frame), frames.sizes[0] - 1);
  return frames.bytes.subspan(static_cast<size_t>(place) * size, size);
}

std::span<const std::byte> StimulusClip::mel(double seconds) const {
  const StoredTensor& mels = file_.tensors().at(kMel);
  const auto size = static_cast<size_t>(grid_.bands) * sizeof(float);
  const auto place = std::min(static_cast<int64_t>(seconds / grid_.seconds_per_mel), mels.sizes[0] - 1);
  return mels.bytes.subspan(static_cast<size_t>(place) * size, size);
}

}  // namespace plimsoll
