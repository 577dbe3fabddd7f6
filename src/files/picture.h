// Reads pictures in PNG and JPEG files as the stored values: grey values and palette indices exactly, up to 16 bits.
// FFmpeg decodes them (files/media.h says how it is loaded).
//
// A header's values are compared with bounds, and a PNG's chunks with their checksums and its image's length, before a
// decoder sees the file. An orientation that a JPEG requests is not applied: masks are drawn on the stored picture.
//
// Bounds: a file has at most 1 GiB, a picture 32768 pixels a side and 2^27 in all, a decoded PNG 512 MiB, a JPEG 128
// scans. Memory is the decoded picture, 2 bytes for each value, and twice the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll {

struct Picture {
  int64_t width = 0, height = 0;
  int64_t channels = 1;           ///< 1: grey, or indices of a palette; 3: red, green, blue. Transparency is dropped
  int64_t greatest = 255;         ///< largest possible value: 1, 3, 15, 255 or 65535
  bool exact = true;              ///< false: a JPEG, whose values approximate the saved ones
  std::vector<uint16_t> numbers;  ///< [height, width, channels]
  std::vector<uint8_t> palette;   ///< [256, 3] if the values are indices; else empty

  std::string describe_sizes() const;  ///< returns "640 x 480"
};

constexpr int64_t kMaxPictureFileSide = 32768;
constexpr int64_t kMaxPicturePixels = int64_t{1} << 27;

/// Reads a picture. Throws UserError (failure) that names the file: missing, no PNG or JPEG (and its kind), cut short,
/// damaged, too large.
Picture read_picture(const std::filesystem::path& file);

struct PictureSides {
  int64_t width = 0, height = 0;
};

/// Validates a file without decoding it. Throws as read_picture() does, except for errors that only a decoder finds.
PictureSides validate_picture(const std::filesystem::path& file);

/// Returns the picture in colors: indices of a palette become red, green and blue.
Picture in_colours(Picture picture);

}  // namespace plimsoll
