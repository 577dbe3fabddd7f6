#include "files/picture.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/mapped_file.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "files/media.h"
#include "files/picture_header.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxPictureFileBytes = int64_t{1} << 30;
// Largest number of bytes for a pixel: four values of 16 bits as decoded, and three of a Picture (or these twice, while
// it is turned).
constexpr double kMaxPixelBytes = 14;
constexpr double kAlphaBytes = 2;  // in addition, if pixels may be transparent

PictureBytes bytes_of(const MappedFile& file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), static_cast<size_t>(file.size())};
}

PictureHeader look_through(const MappedFile& file, const std::filesystem::path& path) {
  if (file.size() > kMaxPictureFileBytes) refuse_picture(path, "is larger than any picture that is read (1 GiB)");
  const PictureBytes bytes = bytes_of(file);
  const std::string_view kind = file_kind(std::as_bytes(bytes));
  if (kind == "a PNG picture") return check_png(bytes, path);
  if (kind == "a JPEG picture") return check_jpeg(bytes, path);
  refuse_picture(path, fmt::format("is no PNG or JPEG picture{}{}", kind.empty() ? "" : "; it is ", kind));
}

}  // namespace

std::string Picture::describe_sizes() const {
  return fmt::format("{} x {}", width, height);
}

PictureSides validate_picture(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  PictureHeader header = look_through(file, path);
  file.require_whole();
  if (swaps_sides(header.orientation)) std::swap(header.width, header.height);
  return {header.width, header.height, header.orientation, std::move(header.notes)};
}

Picture read_picture(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  const PictureHeader header = look_through(file, path);
  const PictureBytes bytes = bytes_of(file);
  require_data_memory(path.string(), fmt::format("says {} x {} pixels", header.width, header.height),
                      static_cast<double>(header.width) * static_cast<double>(header.height) *
                              (kMaxPixelBytes + (header.alpha ? kAlphaBytes : 0)) +
                          2.0 * static_cast<double>(file.size()));
  std::vector<uint8_t> copied(bytes.begin(), bytes.end());
  file.require_whole();
  Picture picture = decode_picture(path, copied, header.png);
  if (picture.width != header.width || picture.height != header.height)
    refuse_picture(path, "is damaged: its header says other sizes than its picture has");
  picture.exact = header.png;
  if (header.small_bits == 2 || header.small_bits == 4) {  // FFmpeg scales the values to 8 bits
    picture.max_value = (1 << header.small_bits) - 1;
    const auto step = static_cast<uint16_t>(255 / picture.max_value);
    for (uint16_t& number : picture.numbers) number /= step;
    for (uint16_t& alpha : picture.alpha) alpha /= step;
  }
  picture.orientation = header.orientation;
  if (header.orientation != kUpright) {
    picture.numbers = as_seen(header.orientation, picture.numbers, picture.width, picture.height, picture.channels);
    if (!picture.alpha.empty())
      picture.alpha = as_seen(header.orientation, picture.alpha, picture.width, picture.height, 1);
    if (swaps_sides(header.orientation)) std::swap(picture.width, picture.height);
  }
  return picture;
}

Picture on_white(Picture picture) {
  if (!picture.palette.empty()) {
    std::vector<uint16_t> colors(picture.numbers.size() * 3);
    for (size_t i = 0; i < colors.size(); ++i) colors[i] = picture.palette[picture.numbers[i / 3] * size_t{3} + i % 3];
    picture.numbers = std::move(colors);
    picture.channels = 3;
    picture.max_value = 255;
    picture.palette.clear();
  }
  const auto channels = static_cast<size_t>(picture.channels);
  const auto whole = static_cast<uint64_t>(picture.max_value);
  for (size_t i = 0; !picture.alpha.empty() && i < picture.numbers.size(); ++i) {
    const uint64_t alpha = picture.alpha[i / channels];
    picture.numbers[i] =
        static_cast<uint16_t>((picture.numbers[i] * alpha + whole * (whole - alpha) + whole / 2) / whole);
  }
  picture.alpha.clear();
  return picture;
}

}  // namespace plimsoll
