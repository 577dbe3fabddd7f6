// Declares how the pictures of a video are shown: turned, mirrored, with pixels that are no squares.
//
// Facts of the stream and of its frames are in files/media/media_facts.h, which says what is done with each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "files/media/media_file.h"
#include "files/pictures/orientation.h"

namespace plimsoll::media {

/// Returns how a frame is shown: by its own display matrix; if it has none, as the frame before it (`before`); the
/// first frame by its stream's matrix. Streams have the matrix of several frames once, in the first of them. Throws
/// MediaError for a matrix that is no rotation by quarter turns with or without a mirror, and for two matrices that
/// differ.
Orientation orientation_of(const AVStream& stream, const AVFrame& frame, std::optional<Orientation> before = {});

/// Throws MediaError if the values of a frame are not those of a screen's red, green and blue: PQ, Dolby Vision without
/// a base that screens show, matrices that libswscale does not have.
void check_colors(const AVStream& stream, const AVFrame& frame);

/// Returns true if frames of this format may be transparent.
bool has_alpha(const AVFrame& frame);

/// Returns notes about a frame that is read otherwise than some players show it: interlaced, HLG, panoramas, two views,
/// with a tag that no player applies.
std::vector<std::string> notes_of(const AVStream& stream, const AVFrame& frame);

/// Sides of a frame in square pixels, upright.
struct SeenSides {
  int64_t width = 0, height = 0;
};
SeenSides seen_sides(AVFormatContext& format, AVStream& stream, AVFrame& frame, Orientation orientation);

}  // namespace plimsoll::media
