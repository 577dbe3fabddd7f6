// Reads pictures in PNG and JPEG files as the stored values: gray values and palette indices exactly, up to 16 bits.
// FFmpeg decodes them (files/media.h says how it is loaded).
//
// Files are checked before a decoder sees them (files/picture_header.h). Pictures are as people see them: the
// orientation that a camera writes is applied, to masks as well.
//
// Bounds: a file has at most 1 GiB, a picture 32768 pixels a side and 2^27 in all, a decoded PNG 512 MiB, a JPEG 128
// scans. Memory is the decoded picture, 2 bytes for each value (twice while a picture is turned), and twice the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "files/picture_header.h"

namespace plimsoll {

struct Picture {
  int64_t width = 0, height = 0;  ///< upright
  int64_t channels = 1;           ///< 1: gray, or indices of a palette; 3: red, green, blue
  int64_t max_value = 255;        ///< largest possible value: 1, 3, 15, 255 or 65535
  bool exact = true;              ///< false: a JPEG, whose values approximate the saved ones
  std::vector<uint16_t> numbers;  ///< [height, width, channels]
  std::vector<uint16_t>
      alpha;  ///< [height, width], from 0 to `greatest` (palette: 255); empty: no pixel is transparent
  std::vector<uint8_t> palette;        ///< [256, 3] if the values are indices; else empty
  Orientation orientation = kUpright;  ///< applied

  std::string describe_sizes() const;  ///< returns "640 x 480"
};

/// Reads a picture. Throws UserError that names the file: missing, no PNG or JPEG (and its kind), cut short,
/// damaged, too large.
Picture read_picture(const std::filesystem::path& file);

struct PictureSides {
  int64_t width = 0, height = 0;  ///< upright
  Orientation orientation = kUpright;
  std::vector<std::string> notes;  ///< facts that some viewers apply and that have no effect here
};

/// Validates a file without decoding it. Throws as read_picture() does, except for errors that only a decoder finds.
PictureSides validate_picture(const std::filesystem::path& file);

/// Returns the picture in colors on a white page: indices of a palette become red, green and blue, and transparent
/// pixels are mixed with white by their alpha.
Picture on_white(Picture picture);

}  // namespace plimsoll
