// Pictures in PNG and JPEG files, as the numbers that their files hold: grey values and palette indices exactly, up to
// 16 bits. Decoded by FFmpeg (files/media.h says how it is loaded).
//
// What a header says is held against bounds, and a PNG's chunks against their checksums and its image's length, before
// a decoder sees the file. An orientation that a JPEG asks for is not applied: masks are drawn on what is stored.
//
// Bounds: a file has at most 1 GiB, a picture 32768 pixels a side and 2^27 in all, a decoded PNG 512 MiB, a JPEG 128
// scans. Memory is the decoded picture and 2 bytes a number, twice the file beside them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll {

struct Picture {
  int64_t width = 0, height = 0;
  int64_t channels = 1;           ///< 1: grey, or indices of a palette; 3: red, green, blue. Transparency is left out
  int64_t greatest = 255;         ///< that a number can be: 1, 3, 15, 255 or 65535
  bool exact = true;              ///< false: a JPEG, whose numbers are near those that were saved
  std::vector<uint16_t> numbers;  ///< [height, width, channels]
  std::vector<uint8_t> palette;   ///< [256, 3] where the numbers are indices; else empty

  std::string sizes_in_words() const;  ///< "640 x 480"
};

constexpr int64_t kLongestPictureSide = 32768;
constexpr int64_t kMostPicturePixels = int64_t{1} << 27;

/// Throws UserError (failure) that names the file: missing, no PNG or JPEG (and what it is), cut short, damaged, too
/// large.
Picture read_picture(const std::filesystem::path& file);

struct PictureSides {
  int64_t width = 0, height = 0;
};

/// Looks a file through without decoding it. Throws as read_picture() does, for all but what only a decoder finds.
PictureSides look_through_picture(const std::filesystem::path& file);

/// The picture's colours: indices of a palette become red, green and blue.
Picture in_colours(Picture picture);

}  // namespace plimsoll
