#include "data/clips/clip_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <span>
#include <utility>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/hash.h"
#include "data/clips/clip_list.h"
#include "data/parts.h"
#include "files/data_memory.h"
#include "files/media.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kChannels = 3;

struct Clip {
  CachedClip pictures;
  size_t caption = 0;  ///< index into the captions
};

class ClipSamples final : public SampleSource {
 public:
  ClipSamples(const DataConfig& config, const Tokenizer& tokenizer, const ClipShape& shape,
              const std::function<void(double)>& progress)
      : shape_(shape) {
    std::error_code error;
    std::filesystem::create_directories(config.cache_dir, error);
    if (error) throw_file_error("make the folder", config.cache_dir, error.value());
    const std::vector<CaptionedVideo> videos =
        config.clips.list.empty() ? captioned_by_name(config.files) : read_clip_list(config.clips.list);
    check_splits(videos);
    const auto trained =
        std::ranges::count_if(videos, [](const auto& each) { return each.split != Split::validation; });
    if (config.validation_fraction > 0) check_overlaps(videos, config.clips.clip_seconds);
    for (size_t i = 0; i < videos.size(); ++i) {
      const auto report = [&](double fraction) {
        if (progress) progress((static_cast<double>(i) + fraction) / static_cast<double>(videos.size()));
      };
      const size_t caption = caption_of(videos[i], config.clips.prompt, tokenizer);
      try {
        open(videos[i], config, caption, report);
      } catch (const UserError& problem) {
        if (!config.skip_bad || !is_fault_of_file(problem)) throw;
        skipped_.emplace_back(problem.what());
      }
      report(1);
    }
    if (clips_[0].empty())
      throw UserError(fmt::format("none of the {} videos to train on can be read: {}", trained, skipped_.front()),
                      UserError::Kind::failure);
    name_untrained(videos, config);
  }

  int64_t samples(Split split) const override { return std::ssize(of(split)); }
  std::string name_of(Split split, int64_t index) const override {
    return of(split)[static_cast<size_t>(index)].pictures.file.filename().string();
  }
  std::vector<std::string> skipped() const override { return skipped_; }
  std::string never_trained() const override { return never_trained_; }

  Batch batch(const WindowOrder& order, Split split, int64_t first, int64_t count) const override {
    check(order.count() == samples(split), "the order is of another split");
    const int64_t area = shape_.size * shape_.size, pixels = shape_.frames * kChannels * area;
    const auto field = [&](const char* name, DType dtype, std::vector<int64_t> sizes, int64_t numbers) {
      return BatchField{name, dtype, std::move(sizes),
                        std::vector<std::byte>(static_cast<size_t>(count * numbers * element_bytes(dtype)))};
    };
    Batch batch{first, count, {}};
    batch.fields.push_back(
        field("frames", DType::float32, {count, shape_.frames, kChannels, shape_.size, shape_.size}, pixels));
    batch.fields.push_back(field("tokens", DType::int64, {count, shape_.tokens}, shape_.tokens));
    batch.fields.push_back(field("targets", DType::int64, {count, shape_.tokens}, shape_.tokens));
    auto* frames = reinterpret_cast<float*>(batch.fields[0].bytes.data());
    auto* tokens = reinterpret_cast<int64_t*>(batch.fields[1].bytes.data());
    auto* targets = reinterpret_cast<int64_t*>(batch.fields[2].bytes.data());
    for (int64_t i = 0; i < count; ++i) {
      const Clip& clip = of(split)[static_cast<size_t>(order.index(first + i))];
      fill(read_clip(clip.pictures, shape_.frames, shape_.size), area, frames + i * pixels);
      std::ranges::copy(captions_[clip.caption].tokens, tokens + i * shape_.tokens);
      std::ranges::copy(captions_[clip.caption].targets, targets + i * shape_.tokens);
    }
    return batch;
  }

  std::vector<Baseline> baselines(const std::vector<int64_t>& evaluated) const override {
    if (evaluated.empty()) return {};
    std::vector<int64_t> trained(captions_.size());
    for (const Clip& clip : of(Split::train)) ++trained[clip.caption];
    const auto frequent = static_cast<size_t>(std::ranges::max_element(trained) - trained.begin());
    const auto right = std::ranges::count_if(
        evaluated, [&](int64_t i) { return of(Split::validation)[static_cast<size_t>(i)].caption == frequent; });
    return {
        {"captions_right", "without the video", static_cast<double>(right) / static_cast<double>(evaluated.size())}};
  }

 private:
  const std::vector<Clip>& of(Split split) const { return clips_[split == Split::train ? 0 : 1]; }

  // Captions that several videos share are classes. Other captions are texts, of which held-out clips have their own.
  void name_untrained(const std::vector<CaptionedVideo>& videos, const DataConfig& config) {
    PartLabels parts({.samples = "clips", .label = "caption"});
    for (const Split split : {Split::train, Split::validation})
      for (const Clip& clip : of(split))
        parts.add(split == Split::train ? DataPart::train : DataPart::validation, static_cast<int32_t>(clip.caption));
    std::vector<std::string> names(captions_.size());
    for (const auto& [caption, index] : known_captions_) names[index] = caption;
    const std::filesystem::path& file = config.clips.list.empty() ? config.files.front() : config.clips.list;
    if (videos.size() >= 2 * captions_.size()) note_parts(parts, names, file);
    never_trained_ = parts.never_trained(DataPart::validation, names);
  }

  // Stores each caption once, for any number of videos with it, and returns its index.
  size_t caption_of(const CaptionedVideo& video, const std::string& prompt, const Tokenizer& tokenizer) {
    const auto [entry, added] = known_captions_.try_emplace(video.caption, captions_.size());
    if (added) captions_.push_back(caption_tokens(tokenizer, prompt, video.caption, shape_.tokens, video.place));
    return entry->second;
  }

  void open(const CaptionedVideo& video, const DataConfig& config, size_t caption,
            const std::function<void(double)>& report) {
    const VideoFile file = VideoFile::look_at(video.file);
    const VideoInfo info = describe_video(video.file);
    const double length = info.seconds;
    const double end = video.end < 0 ? length : video.end;
    if (end > length + 0.5)
      throw UserError(fmt::format("{}: the part of {} ends at {} s; the video has {:.2f} s", video.place,
                                  video.file.string(), end, length),
                      UserError::Kind::failure);
    if (!(std::min(end, length) > video.start))
      throw UserError(fmt::format("{}: the part of {} starts at {} s; the video has {:.2f} s", video.place,
                                  video.file.string(), video.start, length),
                      UserError::Kind::failure);
    const double fraction = held_out_fraction(video, config.validation_fraction);
    std::array<std::vector<Clip>, 2> clips;
    std::vector<CachedClip> all;
    for (const Split split : {Split::train, Split::validation})
      for (const ClipTime& time : cut_clips(video.start, std::min(end, length), config.clips, fraction, split)) {
        all.push_back(cached_clip(config.cache_dir, file, time, shape_.frames, shape_.size, display_key(info)));
        clips[split == Split::train ? 0 : 1].push_back({all.back(), caption});
      }
    decode_clips(file, all, shape_.frames, shape_.size, [&](int64_t done) {
      report(static_cast<double>(done) / static_cast<double>(std::max<int64_t>(1, std::ssize(all))));
    });
    for (size_t part = 0; part < clips.size(); ++part)
      clips_[part].insert(clips_[part].end(), clips[part].begin(), clips[part].end());
  }

  // Transposes pictures [frames, height, width, 3] to channels [frames, 3, height, width].
  void fill(const std::vector<uint8_t>& pictures, int64_t area, float* to) const {
    for (int64_t f = 0; f < shape_.frames; ++f) {
      const uint8_t* from = pictures.data() + f * area * kChannels;
      for (int64_t c = 0; c < kChannels; ++c, to += area) {
        const double std = shape_.std[static_cast<size_t>(c)];
        const auto range = static_cast<float>(255 * std);
        const auto shift = static_cast<float>(shape_.mean[static_cast<size_t>(c)] / std);
        for (int64_t i = 0; i < area; ++i) to[i] = static_cast<float>(from[i * kChannels + c]) / range - shift;
      }
    }
  }

  ClipShape shape_;
  std::vector<CaptionTokens> captions_;
  std::map<std::string, size_t> known_captions_;
  std::array<std::vector<Clip>, 2> clips_;  ///< trained on, held out
  std::vector<std::string> skipped_;
  std::string never_trained_;
};

}  // namespace

std::unique_ptr<SampleSource> clip_samples(const DataConfig& config, const Tokenizer& tokenizer, const ClipShape& shape,
                                           const std::function<void(double fraction)>& progress) {
  return std::make_unique<ClipSamples>(config, tokenizer, shape, progress);
}

namespace {

constexpr int64_t kIgnored = -100;

}  // namespace

CaptionTokens caption_tokens(const Tokenizer& tokenizer, const std::string& prompt, const std::string& caption,
                             int64_t length, const std::string& place) {
  CaptionTokens result;
  std::vector<int32_t> all = tokenizer.encode(prompt);
  // At least one token must come before the first token of the caption.
  if (all.empty()) all.push_back(tokenizer.end_of_text());
  const size_t before = all.size();
  result.caption = tokenizer.encode(caption);
  result.caption.push_back(tokenizer.end_of_text());
  all.insert(all.end(), result.caption.begin(), result.caption.end());
  if (std::ssize(all) - 1 > length)
    throw UserError(
        fmt::format("{}: prompt and caption are {} tokens; data.sequence_length is {}: give it that "
                    "many, or shorten the caption",
                    place, all.size() - 1, length));
  const auto size = static_cast<size_t>(length);
  result.tokens.assign(size, tokenizer.end_of_text());
  result.targets.assign(size, kIgnored);
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    result.tokens[i] = all[i];
    if (i + 1 >= before) result.targets[i] = all[i + 1];
  }
  return result;
}

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
