// Declares the list of videos with captions, and the division of their time into clips.
//
//     start                                                            end of the listed part
//     |- clip -|- clip -|- clip -|- clip -|            |- clip -|- clip -|
//     |------------- trained on ----------|-- left out-|---- held out ---|
//
// Neighboring pictures look alike. Between the training part and the held-out part, a clip's length is left out, or a
// quarter of the training part if that is less. A list may also give whole videos their split.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/sampler.h"
#include "files/file_kind.h"
#include "plimsoll/sample_data.h"

namespace plimsoll {

/// A video, or a part of one.
struct CaptionedVideo {
  std::filesystem::path file;
  std::string caption;
  double start = 0;                           ///< seconds
  double end = -1;                            ///< seconds; negative: the video's end
  std::string place;                          ///< "list.tsv:3"; for messages
  std::optional<Split> split = std::nullopt;  ///< the list's split of the whole video; empty: by the job's fraction
};

struct ClipTime {
  double start = 0, end = 0;  ///< seconds
};

/// Reads the videos of a list. A line has path, tab, caption, and for a part of a video also tab, start, tab, end in
/// seconds. A line may end with a tab and the word train or validation. Empty lines and those that begin with # are
/// left out; paths are relative to the list's folder. Throws UserError that names the line.
std::vector<CaptionedVideo> read_clip_list(const std::filesystem::path& list);

/// Returns videos whose captions are their names.
std::vector<CaptionedVideo> captioned_by_name(const std::vector<std::filesystem::path>& files);

/// Throws UserError if parts of one video without a split overlap and are not the same, or are less than `gap` seconds
/// apart: a held-out part would be trained on as the other. Two names of one file are the same video.
void check_overlaps(const std::vector<CaptionedVideo>& videos, double gap);

/// Throws UserError if two lines of one file differ in their split, also if only one of them has a split, or if the
/// list has the split validation for every video.
void check_splits(const std::vector<CaptionedVideo>& videos);

/// Returns the share of the video's time that is held out: 0 or 1 if the list has its split, else `fraction`.
double held_out_fraction(const CaptionedVideo& video, double fraction);

/// Returns the clips of [start, end), of which `fraction` is held out; 1: all. Each part that is not empty has at least
/// one clip, which is as long as the part if that is short.
std::vector<ClipTime> cut_clips(double start, double end, const ClipsConfig& config, double fraction, Split split);

}  // namespace plimsoll

namespace plimsoll::clip_lists {

/// The treatment of each part of a list of clips (data.list with data.type clips).
inline constexpr FileFact kFacts[] = {
    {"list of clips", "separator", "applied", "a tab; other numbers of cells than 2 to 5 are refused"},
    {"list of clips", "double quotes", "applied", "around a whole cell they are removed, with a note"},
    {"list of clips", "video, caption", "applied", "the first two cells; the path counts from the list's folder"},
    {"list of clips", "start, end", "applied", "in seconds; parts of one video that overlap are refused"},
    {"list of clips", "train, validation", "applied",
     "the last cell; lines of one video with two of them, and a list without train, are refused"},
    {"list of clips", "lines that begin with #", "ignored", "comments"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::clip_lists
