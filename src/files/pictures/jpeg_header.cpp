#include <fmt/format.h>

#include <string_view>

#include "files/pictures/picture_header.h"

namespace plimsoll {
namespace {

// Largest number of scans of a progressive JPEG: the decoder processes the picture once for each. Encoders write about
// ten.
constexpr int64_t kMaxScans = 128;

/// Data of other standards, empty if there are none.
struct ApplicationData {
  PictureBytes exif, profile;
  std::string_view xmp;
};

/// Keeps the first data of each kind.
void add_application_data(uint8_t marker, PictureBytes segment, ApplicationData& data) {
  constexpr uint8_t kApp1 = 0xe1, kApp2 = 0xe2;
  constexpr std::string_view kExif("Exif\0\0", 6), kXmp("http://ns.adobe.com/xap/1.0/\0", 29),
      kProfile("ICC_PROFILE\0", 12);
  const std::string_view text(reinterpret_cast<const char*>(segment.data()), segment.size());
  if (marker == kApp1 && text.starts_with(kExif) && data.exif.empty()) data.exif = segment.subspan(kExif.size());
  if (marker == kApp1 && text.starts_with(kXmp) && data.xmp.empty()) data.xmp = text.substr(kXmp.size());
  // The number of the part and the number of parts come first.
  if (marker == kApp2 && text.starts_with(kProfile) && segment.size() > kProfile.size() + 2 && data.profile.empty())
    data.profile = segment.subspan(kProfile.size() + 2);
}

}  // namespace

/// Returns the sides in the frame's header, and checks for the end of the image's data: a decoder would leave missing
/// parts gray.
PictureHeader check_jpeg(PictureBytes bytes, const std::filesystem::path& file) {
  constexpr uint8_t kScan = 0xda, kEnd = 0xd9;
  PictureHeader header;
  ApplicationData data;
  size_t scan = 0;
  for (size_t at = 2; scan == 0;) {
    while (at < bytes.size() && bytes[at] == 0xff) ++at;  // a marker may begin with several of these bytes
    if (bytes.size() < at + 3 || bytes[at - 1] != 0xff)
      refuse_picture(file, "ends inside its header: it is truncated or damaged");
    const uint8_t marker = bytes[at];
    const size_t length = size_t{bytes[at + 1]} << 8 | bytes[at + 2];
    if (length < 2 || length > bytes.size() - at - 1)
      refuse_picture(file, "ends inside its header: it is truncated or damaged");
    // SOF0 to SOF15, except the table markers between them.
    if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
      if (length < 8) refuse_picture(file, "has a frame without sizes: it is damaged");
      header.width = big_endian_number(bytes, at + 6, 2);
      header.height = big_endian_number(bytes, at + 4, 2);
      if (bytes[at + 3] != 8)
        refuse_picture(file,
                       fmt::format("has values of {} bits; a JPEG of 8 bits is read: save it as PNG", bytes[at + 3]));
      check_picture_sides(header.width, header.height, file);
    }
    add_application_data(marker, bytes.subspan(at + 3, length - 2), data);
    at += 1 + length;
    if (marker == kScan) scan = at;
  }
  if (header.width == 0) refuse_picture(file, "has no frame: it is damaged");
  // A scan's data cannot contain 0xff 0xd9: a 0 follows each 0xff.
  int64_t scans = 1;
  for (size_t at = scan; at + 1 < bytes.size(); ++at) {
    if (bytes[at] != 0xff) continue;
    if (bytes[at + 1] == kEnd) {
      header.orientation = picture_orientation(data.exif, data.xmp, file);
      if (const std::string note = data.profile.empty() ? "" : profile_note(data.profile); !note.empty())
        header.notes.push_back(note);
      return header;
    }
    if (bytes[at + 1] == kScan && ++scans > kMaxScans)
      refuse_picture(file, fmt::format("has more than {} scans: it is damaged, or made to take long", kMaxScans));
  }
  refuse_picture(file, "ends before its picture does: it is truncated");
}

}  // namespace plimsoll
