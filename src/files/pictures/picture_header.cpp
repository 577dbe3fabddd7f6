#include "files/pictures/picture_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

/// Returns the orientation that EXIF data state; 0 if they state none, or are damaged.
int exif_orientation(PictureBytes exif) {
  constexpr size_t kEntry = 12;
  constexpr uint32_t kOrientation = 0x0112, kShort = 3;
  if (exif.size() < 8) return 0;
  const bool little = exif[0] == 'I' && exif[1] == 'I';
  if (!little && (exif[0] != 'M' || exif[1] != 'M')) return 0;
  const auto number = [&](size_t at, size_t bytes) {
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | exif[at + (little ? bytes - 1 - i : i)];
    return value;
  };
  if (number(2, 2) != 42) return 0;
  const size_t folder = number(4, 4);
  if (folder > exif.size() - 2) return 0;
  const size_t entries = std::min<size_t>(number(folder, 2), (exif.size() - folder - 2) / kEntry);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = folder + 2 + i * kEntry;
    if (number(entry, 2) != kOrientation) continue;
    const uint32_t value = number(entry + 8, number(entry + 2, 2) == kShort ? 2 : 4);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : int{kUpright};
  }
  return 0;
}

int xmp_orientation(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = xmp.find(kName); at != std::string_view::npos; at = xmp.find(kName, at + 1)) {
    std::string_view rest = xmp.substr(at + kName.size());
    if (rest.starts_with("=\"") || rest.starts_with("='"))
      rest.remove_prefix(2);
    else if (rest.starts_with(">"))
      rest.remove_prefix(1);
    else
      continue;
    if (!rest.empty() && rest[0] >= '1' && rest[0] <= '8') return rest[0] - '0';
  }
  return 0;
}

/// Returns the ASCII letters of the profile's description; "" if there is none.
std::string profile_name(PictureBytes profile) {
  constexpr size_t kTags = 128, kMaxTags = 100, kMaxLetters = 60;
  const auto number = [&](size_t at) { return at + 4 <= profile.size() ? big_endian_number(profile, at) : 0; };
  const size_t tags = std::min<size_t>(number(kTags), kMaxTags);
  for (size_t i = 0; i < tags; ++i) {
    const size_t entry = kTags + 4 + 12 * i;
    if (number(entry) != 0x64657363) continue;  // desc
    size_t at = number(entry + 4), letters = 0, width = 1;
    if (number(at) == 0x64657363) {  // of version 2: the number of letters, the letters
      letters = number(at + 8);
      at += 12;
    } else if (number(at) == 0x6d6c7563) {  // mluc, of version 4: UTF-16 in several languages
      letters = number(at + 20) / 2;
      at += number(at + 24);
      width = 2;
    }
    std::string name;
    for (size_t k = 0; k < std::min(letters, kMaxLetters) && at + width * (k + 1) <= profile.size(); ++k) {
      const char letter = static_cast<char>(profile[at + width * (k + 1) - 1]);
      if (letter >= ' ' && letter <= '~') name += letter;
    }
    return name;
  }
  return "";
}

}  // namespace

void refuse_picture(const std::filesystem::path& file, const std::string& what) {
  throw UserError(fmt::format("{}: {}", file.string(), what), UserError::Kind::failure);
}

void check_picture_sides(int64_t width, int64_t height, const std::filesystem::path& file) {
  if (width < 1 || height < 1 || width > kMaxPictureFileSide || height > kMaxPictureFileSide ||
      width * height > kMaxPicturePixels)
    refuse_picture(file, fmt::format("says that it is {} x {} pixels; 1 to {} a side and {} in all are read", width,
                                     height, kMaxPictureFileSide, kMaxPicturePixels));
}

uint32_t big_endian_number(PictureBytes all, size_t at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | all[at + i];
  return value;
}

Orientation picture_orientation(PictureBytes exif, std::string_view xmp, const std::filesystem::path& file) {
  if (const int orientation = exif_orientation(exif)) return orientation;
  // Viewers differ: some apply the orientation of XMP data, and browsers do not.
  if (const int orientation = xmp_orientation(xmp); orientation > 1)
    refuse_picture(file,
                   fmt::format("has the orientation {} in XMP data, and none in EXIF data, so that viewers differ; "
                               "write it where all find it: exiftool -Orientation#={} FILE",
                               orientation, orientation));
  return kUpright;
}

std::string profile_note(PictureBytes profile) {
  const std::string name = profile_name(profile);
  if (name.find("sRGB") != std::string::npos) return "";
  return fmt::format("the color profile{} is not applied: values are read as they are stored, as Pillow does",
                     name.empty() ? "" : " " + name);
}

}  // namespace plimsoll
