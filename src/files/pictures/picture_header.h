// Declares the checks of PNG and JPEG files that come before any decoder, and the facts of their headers.
//
// A header's values are compared with bounds, and a PNG's chunks with their checksums and its image's length. The table
// of facts is data/pictures/picture_facts.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "files/pictures/orientation.h"

namespace plimsoll {

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
