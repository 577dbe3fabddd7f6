#include "data/clips/clip_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/text.h"
#include "files/file_kind.h"
#include "files/text_file.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxLineLength = 64 * 1024;
constexpr int64_t kMaxLines = 10'000'000;
constexpr double kMaxClips = 10'000'000;

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == '\t')
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

/// Returns the text of a cell that is whole in double quotes, with "" for a quote, or nothing.
std::optional<std::string> unquoted(std::string_view field) {
  if (field.size() < 2 || field.front() != '"' || field.back() != '"') return std::nullopt;
  std::string text;
  for (size_t i = 1; i + 1 < field.size(); ++i) {
    if (field[i] == '"' && (i + 2 == field.size() || field[++i] != '"')) return std::nullopt;
    text += field[i];
  }
  return text;
}

// Removes the split that ends a line from its fields.
std::optional<Split> take_split(std::vector<std::string>& fields, const std::string& place) {
  if (fields.size() != 3 && fields.size() != 5) return std::nullopt;
  const std::string word = std::move(fields.back());
  fields.pop_back();
  if (word == "train") return Split::train;
  if (word == "validation") return Split::validation;
  throw UserError(
      fmt::format("{}: the split is {}; allowed: train or validation; a part of a video has two times, its "
                  "start and its end in seconds",
                  place, in_quotes(word)));
}

// Returns the same path for all names of one file.
std::string file_key(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::weakly_canonical(path, error);
  return (error ? path.lexically_normal() : file).string();
}

double seconds_of(const std::string& text, const std::string& place) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(seconds) || seconds < 0)
    throw UserError(fmt::format("{}: {} is no time in seconds; write for example 12.5", place, in_quotes(text)));
  return seconds;
}

}  // namespace

std::vector<CaptionedVideo> read_clip_list(const std::filesystem::path& list) {
  std::error_code error;
  if (!std::filesystem::exists(list, error))
    throw UserError(fmt::format("data.list: {} does not exist", list.string()));
  if (!std::filesystem::is_regular_file(list, error))
    throw UserError(fmt::format("data.list: {} is not a regular file", list.string()));
  TextLines lines(list, "list of clips", kMaxLineLength, UserError::Kind::usage);
  std::vector<CaptionedVideo> videos;
  for (std::string line; lines.next(line);) {
    const std::string place = lines.place();
    if (lines.line() > kMaxLines) throw UserError(fmt::format("{}: a list has at most {} lines", place, kMaxLines));
    if (line.empty() || line.front() == '#') continue;
    std::vector<std::string> fields = fields_of(line);
    for (std::string& field : fields)
      if (std::optional<std::string> text = unquoted(field)) {
        field = std::move(*text);
        note_data(list, "double quotes around a whole cell are not part of it, as in tables");
      }
    const size_t count = fields.size();
    const std::optional<Split> split = take_split(fields, place);
    if ((fields.size() != 2 && fields.size() != 4) || fields[0].empty() || fields[1].empty() ||
        line.find('\0') != std::string::npos)
      throw UserError(
          fmt::format("{}: a line is a video, a tab and its caption, and of a part of the video a tab, its "
                      "start, a tab and its end in seconds; a tab and train or validation may follow; this one has {} "
                      "fields",
                      place, count));
    CaptionedVideo video{list.parent_path() / fields[0], fields[1], 0, -1, place, split};
    if (fields.size() == 4) {
      video.start = seconds_of(fields[2], place);
      video.end = seconds_of(fields[3], place);
      if (video.end <= video.start)
        throw UserError(fmt::format("{}: the part ends at {} s, and starts at {} s", place, video.end, video.start));
    }
    videos.push_back(std::move(video));
  }
  if (videos.empty()) throw UserError(fmt::format("data.list: {} names no video", list.string()));
  return videos;
}

std::vector<CaptionedVideo> captioned_by_name(const std::vector<std::filesystem::path>& files) {
  std::vector<CaptionedVideo> videos;
  for (const std::filesystem::path& file : files) {
    std::string caption = file.stem().string();
    std::ranges::replace_if(
        caption, [](char c) { return c == '_' || c == '-'; }, ' ');
    videos.push_back({file, std::move(caption), 0, -1, "data.files"});
  }
  return videos;
}

void check_overlaps(const std::vector<CaptionedVideo>& videos, double gap) {
  std::map<std::string, std::vector<const CaptionedVideo*>> by_file;
  for (const CaptionedVideo& video : videos)
    if (!video.split) by_file[file_key(video.file)].push_back(&video);
  const auto end_of = [](const CaptionedVideo& video) { return video.end < 0 ? HUGE_VAL : video.end; };
  for (auto& [file, parts] : by_file) {
    std::ranges::sort(parts, {}, [&](const auto* each) { return std::pair(each->start, end_of(*each)); });
    for (size_t i = 1; i < parts.size(); ++i) {
      const CaptionedVideo &one = *parts[i - 1], &other = *parts[i];
      if ((one.start == other.start && one.end == other.end) || end_of(one) + gap <= other.start) continue;
      throw UserError(fmt::format(
          "{}: this part of {} overlaps that of {}, or is less than a clip ({} s) from it; what is held out "
          "of one would be learned from the other: make them the same or further apart",
          other.place, one_line(other.file.filename().string()), one.place, gap));
    }
  }
}

void check_splits(const std::vector<CaptionedVideo>& videos) {
  std::map<std::string, const CaptionedVideo*> first_of;
  for (const CaptionedVideo& video : videos) {
    const CaptionedVideo& first = *first_of.try_emplace(file_key(video.file), &video).first->second;
    if (first.split != video.split)
      throw UserError(
          fmt::format("{}: {} is in another split than at {}; a held-out video must not be trained on: give "
                      "all lines of one file the same split",
                      video.place, one_line(video.file.filename().string()), first.place));
  }
  if (std::ranges::all_of(videos, [](const auto& each) { return each.split == Split::validation; }))
    throw UserError(
        fmt::format("{}: every video of the list has the split validation; give the split train to at least "
                    "one",
                    videos.front().place));
}

double held_out_fraction(const CaptionedVideo& video, double fraction) {
  if (!video.split) return fraction;
  return video.split == Split::validation ? 1 : 0;
}

std::vector<ClipTime> cut_clips(double start, double end, const ClipsConfig& config, double fraction, Split split) {
  const double whole = end - start, held_out = fraction * whole;
  const double gap = fraction > 0 ? std::min(config.clip_seconds, (whole - held_out) / 4) : 0;
  const double begin = split == Split::train ? start : end - held_out;
  const double length = split == Split::train ? whole - held_out - gap : held_out;
  std::vector<ClipTime> clips;
  if (!(length > 0)) return clips;
  if (length <= config.clip_seconds) return {{begin, begin + length}};
  const bool adjacent = split == Split::validation || config.clip_stride <= 0;
  const double stride = adjacent ? config.clip_seconds : config.clip_stride;
  // The rounding of a sum of strides must not cost the last clip.
  const double count = std::floor((length - config.clip_seconds) / stride + 1e-6) + 1;
  if (count > kMaxClips)
    throw UserError(
        fmt::format("a video of {:.0f} s has {:.0f} clips, more than {:.0f}; make data.clip_seconds or "
                    "data.clip_stride longer",
                    whole, count, kMaxClips));
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
    const double from = begin + static_cast<double>(i) * stride;
    clips.push_back({from, std::min(from + config.clip_seconds, begin + length)});
  }
  return clips;
}

}  // namespace plimsoll
