// Which clips there are: videos with captions, and how their time is cut.
//
//     start                                                            end of the part that is meant
//     |- clip -|- clip -|- clip -|- clip -|            |- clip -|- clip -|
//     |------------- trained on ----------|-- left out-|---- held out ---|
//
// Neighbouring pictures look alike: between what is trained on and what is held out a clip's length is left out, or a
// quarter of what there is to train on where that is less. A list may also hold out whole videos by name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/sampler.h"
#include "plimsoll/sample_data.h"

namespace plimsoll {

/// A video, or a part of one.
struct CaptionedVideo {
  std::filesystem::path file;
  std::string caption;
  double start = 0;                           ///< seconds
  double end = -1;                            ///< seconds; negative: the video's
  std::string place;                          ///< "list.tsv:3", for messages
  std::optional<Split> split = std::nullopt;  ///< the part that the list gives the whole video to
};

struct ClipTime {
  double start = 0, end = 0;  ///< seconds
};

/// The videos of a list: lines of path, tab, caption, and of a part tab, start, tab, end in seconds. A line may end
/// with a tab and the word train or validation. Empty lines and those that begin with # are left out; paths are
/// relative to the list's folder. Throws UserError that names the line.
std::vector<CaptionedVideo> read_clip_list(const std::filesystem::path& list);

/// Videos whose captions are their names.
std::vector<CaptionedVideo> captioned_by_name(const std::vector<std::filesystem::path>& files);

/// Throws UserError where parts of one video overlap and are not the same, or are less than `gap` seconds apart: what
/// is held out of one would be trained on as the other. Videos are the same where their files are, whatever they are
/// called.
void check_overlaps(const std::vector<CaptionedVideo>& videos, double gap);

/// Gives every video a split, if the list gives one to any: train to those without. Throws UserError if a file is both
/// trained on and held out, or no video is trained on.
void complete_splits(std::vector<CaptionedVideo>& videos);

/// The share of the video's time that is held out: 0 or 1 if the list says its split, else `fraction`.
double held_out_fraction(const CaptionedVideo& video, double fraction);

/// The clips of [start, end), `fraction` of which is held out, 1: all. Each part that is not empty has at least one
/// clip, which is as long as the part where that is short.
std::vector<ClipTime> cut_clips(double start, double end, const ClipsConfig& config, double fraction, Split split);

}  // namespace plimsoll
