#include "data/series/stimulus_media.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <complex>
#include <cstring>
#include <memory>
#include <numbers>
#include <vector>

#include "base/file_error.h"
#include "base/hash.h"
#include "base/text.h"
#include "files/data_memory.h"
#include "files/media.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

/// Finds the clip of each label in the folder; empty: it has none.
std::vector<std::filesystem::path> clips_in(const std::filesystem::path& folder, const StimulusLabels& labels) {
  std::vector<std::filesystem::path> clips(labels.names.size());
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const auto label = std::ranges::find(labels.names, entry->path().stem().string());
    if (label == labels.names.end()) continue;
    std::filesystem::path& clip = clips[static_cast<size_t>(label - labels.names.begin())];
    if (!clip.empty())
      throw UserError(fmt::format("data.videos: {} and {} are both for the label {}; leave one", clip.string(),
                                  entry->path().string(), one_line(*label)));
    clip = entry->path();
  }
  if (error) throw_file_error("read", folder, error.value());
  if (std::ranges::all_of(clips, [](const auto& clip) { return clip.empty(); }))
    throw UserError(fmt::format("data.videos: {} has no clip for any label; a clip is named as its label is: {}",
                                folder.string(), few_names(labels.names)));
  return clips;
}

}  // namespace

StimulusMedia::StimulusMedia(const std::filesystem::path& videos, const StimulusLabels& labels,
                             double seconds_per_volume, const ClipGrid& grid, const std::filesystem::path& cache_dir,
                             bool skip_bad, const std::function<void(const std::string&, double)>& progress)
    : seconds_per_volume_(seconds_per_volume) {
  const auto open = [&](const std::filesystem::path& file) {
    const std::string what = "decoding " + file.filename().string();
    return StimulusClip(file, grid, cache_dir, [&](double fraction) { progress(what, fraction); });
  };
  const size_t volumes = labels.label.size();
  onset_.assign(volumes, 0);
  if (std::error_code ignored; !std::filesystem::is_directory(videos, ignored)) {
    clips_.push_back(open(videos));
    clip_of_.assign(volumes, 0);
    const double wanted = seconds_per_volume * static_cast<double>(volumes);
    if (clips_[0].seconds() < wanted - seconds_per_volume)
      throw UserError(
          fmt::format("data.videos: {} lasts {:.1f} seconds, the series {:.1f}; give a film of the whole series, or a "
                      "folder with a clip for each label, which is repeated",
                      videos.string(), clips_[0].seconds(), wanted));
    return;
  }
  repeated_ = true;
  std::vector<int64_t> of_label(labels.names.size(), -1);
  const std::vector<std::filesystem::path> files = clips_in(videos, labels);
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i].empty()) continue;
    try {
      clips_.push_back(open(files[i]));
      of_label[i] = std::ssize(clips_) - 1;
    } catch (const UserError& error) {
      if (!skip_bad || !is_fault_of_file(error)) throw;
      skipped_.emplace_back(error.what());
    }
  }
  for (size_t v = 0; v < volumes; ++v) {
    clip_of_.push_back(of_label[static_cast<size_t>(labels.label[v])]);
    const bool goes_on = v > 0 && labels.label[v] == labels.label[v - 1] && labels.run[v] == labels.run[v - 1];
    onset_[v] = goes_on ? onset_[v - 1] : static_cast<int64_t>(v);
  }
}

const StimulusClip* StimulusMedia::clip_at(double volumes, double& seconds) const {
  const auto volume = static_cast<size_t>(volumes);
  if (volumes < 0 || volume >= clip_of_.size() || clip_of_[volume] < 0) return nullptr;
  const StimulusClip& clip = clips_[static_cast<size_t>(clip_of_[volume])];
  seconds = (volumes - static_cast<double>(onset_[volume])) * seconds_per_volume_;
  if (repeated_) seconds = std::fmod(seconds, clip.seconds());
  return &clip;
}

bool StimulusMedia::copy_frame(double volumes, std::span<std::byte> out) const {
  double seconds = 0;
  const StimulusClip* clip = clip_at(volumes, seconds);
  if (clip != nullptr) clip->copy_frame(seconds, out);
  return clip != nullptr;
}

bool StimulusMedia::copy_mel(double volumes, std::span<std::byte> out) const {
  double seconds = 0;
  const StimulusClip* clip = clip_at(volumes, seconds);
  if (clip != nullptr) clip->copy_mel(seconds, out);
  return clip != nullptr;
}

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

namespace {

constexpr int64_t kWindow = kMelSampleRate / 40;  // 25 ms
constexpr int64_t kHop = kMelSampleRate / 100;    // 10 ms
constexpr int64_t kMinTransformLength = 512;
constexpr double kMaxFrequency = kMelSampleRate / 2.0;
constexpr double kFloor = 1e-8;

// Converts by Slaney's scale: linear below 1 kHz, logarithmic above.
constexpr double kHertzPerMel = 200.0 / 3, kBend = 1000;
const double kLogStep = std::log(6.4) / 27;

double mel_of(double hertz) {
  return hertz < kBend ? hertz / kHertzPerMel : kBend / kHertzPerMel + std::log(hertz / kBend) / kLogStep;
}
double hertz_of(double mel) {
  const double bend = kBend / kHertzPerMel;
  return mel < bend ? mel * kHertzPerMel : kBend * std::exp((mel - bend) * kLogStep);
}

class Bands {
 public:
  explicit Bands(int64_t count) {
    const double step = mel_of(kMaxFrequency) / static_cast<double>(count + 1);
    // The lowest bands are the narrowest; each of their slopes has at least one bin.
    int64_t size = kMinTransformLength;
    while (kMelSampleRate / static_cast<double>(size) > hertz_of(step)) size *= 2;
    values_.resize(static_cast<size_t>(size));
    transform_ = make_fourier_transform(size);
    for (int64_t i = 0; i < count + 2; ++i) edges_.push_back(hertz_of(step * static_cast<double>(i)));
  }

  /// Adds the power of a window around sample `center` to `powers`, one for each band.
  void add(std::span<const float> samples, int64_t center, std::vector<double>& powers) {
    std::ranges::fill(values_, 0);
    for (int64_t i = 0; i < kWindow; ++i) {
      const int64_t at = center - kWindow / 2 + i;
      if (at < 0 || at >= std::ssize(samples)) continue;
      const double hann = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / kWindow);
      values_[static_cast<size_t>(i)] = hann * static_cast<double>(samples[static_cast<size_t>(at)]);
    }
    const std::span<const std::complex<double>> spectrum = transform_->of(values_);
    const double bin = kMelSampleRate / static_cast<double>(values_.size());
    for (size_t band = 0; band < powers.size(); ++band) {
      const double low = edges_[band], middle = edges_[band + 1], high = edges_[band + 2];
      for (auto k = static_cast<size_t>(std::ceil(low / bin)); static_cast<double>(k) * bin < high; ++k) {
        const double hertz = static_cast<double>(k) * bin;
        const double weight = hertz < middle ? (hertz - low) / (middle - low) : (high - hertz) / (high - middle);
        powers[band] += weight * std::norm(spectrum[k]);
      }
    }
  }

 private:
  std::vector<double> edges_;
  std::vector<std::complex<double>> values_;
  std::unique_ptr<FourierTransform> transform_;
};

}  // namespace

std::vector<float> log_mel(std::span<const float> samples, int64_t frames, double seconds_per_frame, int64_t bands) {
  check(frames >= 0 && seconds_per_frame > 0 && bands >= 1, "a spectrogram of no frames or bands");
  Bands transformed(bands);
  std::vector<float> mel(static_cast<size_t>(frames * bands), kMelSilence);
  const double samples_per_frame = seconds_per_frame * kMelSampleRate;
  for (int64_t frame = 0; frame < frames; ++frame) {
    const double begin = static_cast<double>(frame) * samples_per_frame;
    if (begin >= static_cast<double>(samples.size())) break;
    const auto windows = static_cast<int64_t>(std::ceil(samples_per_frame / static_cast<double>(kHop)));
    std::vector<double> powers(static_cast<size_t>(bands), 0.0);
    for (int64_t i = 0; i < windows; ++i) {
      const double at = begin + samples_per_frame * (static_cast<double>(i) + 0.5) / static_cast<double>(windows);
      transformed.add(samples, static_cast<int64_t>(at), powers);
    }
    for (int64_t band = 0; band < bands; ++band) {
      const double power = std::max(powers[static_cast<size_t>(band)] / static_cast<double>(windows), kFloor);
      mel[static_cast<size_t>(frame * bands + band)] = static_cast<float>((std::log10(power) + 4) / 4);
    }
  }
  return mel;
}

}  // namespace plimsoll
