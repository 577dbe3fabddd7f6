// Declares the checks of PNG and JPEG files that come before any decoder, the facts of their headers, and the eight
// orientations of a picture.
//
// A header's values are compared with bounds, and a PNG's chunks with their checksums and its image's length. The table
// of facts is in data/masks/picture_samples.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace plimsoll {

/// A way in which stored pixels become the picture that people see, by its EXIF number, 1 to 8: 1 upright, 2 mirrored,
/// 3 turned by 180 degrees, 4 upside down, 5 rows and columns swapped, 6 turned by 90 degrees clockwise, 7 swapped
/// along the other diagonal, 8 turned by 90 degrees counterclockwise.
using Orientation = int;

constexpr Orientation kUpright = 1;

/// Returns true if the seen width is the stored height.
constexpr bool swaps_sides(Orientation orientation) {
  return orientation >= 5;
}

/// Returns the index of the stored pixel that is seen at (`column`, `row`); `width` and `height` are the stored sides.
constexpr int64_t stored_pixel(Orientation orientation, int64_t column, int64_t row, int64_t width, int64_t height) {
  const bool swaps = swaps_sides(orientation);
  int64_t x = swaps ? row : column, y = swaps ? column : row;
  if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8) x = width - 1 - x;
  if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) y = height - 1 - y;
  return y * width + x;
}

/// Returns [height, width, channels] `values` of a stored picture as they are seen: [width, height, channels] if the
/// orientation swaps the sides.
template <typename Value>
std::vector<Value> as_seen(Orientation orientation, const std::vector<Value>& values, int64_t width, int64_t height,
                           int64_t channels) {
  if (orientation == kUpright) return values;
  const int64_t across = swaps_sides(orientation) ? height : width, down = swaps_sides(orientation) ? width : height;
  std::vector<Value> seen;
  seen.reserve(values.size());
  for (int64_t row = 0; row < down; ++row)
    for (int64_t column = 0; column < across; ++column) {
      const int64_t from = stored_pixel(orientation, column, row, width, height) * channels;
      for (int64_t c = 0; c < channels; ++c) seen.push_back(values[static_cast<size_t>(from + c)]);
    }
  return seen;
}

using PictureBytes = std::span<const uint8_t>;

constexpr int64_t kMaxPictureFileSide = 32768;
constexpr int64_t kMaxPicturePixels = int64_t{1} << 27;

struct PictureHeader {
  int64_t width = 0, height = 0;  ///< stored sides
  Orientation orientation = kUpright;
  bool png = false;
  int64_t small_bits = 0;          ///< bits of a gray PNG's values, if fewer than 8
  bool alpha = false;              ///< pixels may be transparent
  std::vector<std::string> notes;  ///< facts that some viewers apply and that have no effect here
};

/// Check a file whose first bytes are those of its kind. Throw UserError (failure) that names the file.
PictureHeader check_png(PictureBytes bytes, const std::filesystem::path& file);
PictureHeader check_jpeg(PictureBytes bytes, const std::filesystem::path& file);

// Parts of the checks, for both kinds.

[[noreturn]] void refuse_picture(const std::filesystem::path& file, const std::string& what);

/// Throws UserError for sides that are not read.
void check_picture_sides(int64_t width, int64_t height, const std::filesystem::path& file);

/// Returns the number of `bytes` bytes at `at`, the most significant first. The bytes must be there.
uint32_t big_endian_number(PictureBytes all, size_t at, size_t bytes = 4);

/// Returns the orientation, by EXIF data (a TIFF file without a picture; empty: none) or, if these have none, by XMP
/// data. Throws UserError for an orientation that XMP data alone state.
Orientation picture_orientation(PictureBytes exif, std::string_view xmp, const std::filesystem::path& file);

/// Returns a note about an ICC profile (its first bytes are enough); "" for one that names itself sRGB.
std::string profile_note(PictureBytes profile);

}  // namespace plimsoll
