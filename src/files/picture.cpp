#include "files/picture.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/mapped_file.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "files/media.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxPictureFileBytes = int64_t{1} << 30;
// Largest decoded PNG in bytes: 100 million pixels of red, green and blue in 8 bits take 300 MB.
constexpr int64_t kMaxDecodedBytes = int64_t{512} << 20;
// Largest number of scans of a progressive JPEG: the decoder processes the picture once for each. Encoders write about
// ten.
constexpr int64_t kMaxScans = 128;
// Largest number of bytes for a pixel: four values of 16 bits as decoded, and three of a Picture.
constexpr double kMaxPixelBytes = 14;
constexpr size_t kSignature = 8;

using Bytes = std::span<const uint8_t>;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw UserError(fmt::format("{}: {}", file.string(), what), UserError::Kind::failure);
}

uint32_t big_endian(Bytes bytes, size_t at) {
  return uint32_t{bytes[at]} << 24 | uint32_t{bytes[at + 1]} << 16 | uint32_t{bytes[at + 2]} << 8 | bytes[at + 3];
}

void check_sides(int64_t width, int64_t height, const std::filesystem::path& file) {
  if (width < 1 || height < 1 || width > kMaxPictureFileSide || height > kMaxPictureFileSide ||
      width * height > kMaxPicturePixels)
    refuse(file, fmt::format("says that it is {} x {} pixels; 1 to {} a side and {} in all are read", width, height,
                             kMaxPictureFileSide, kMaxPicturePixels));
}

/// Returns the bytes of all rows of a PNG after unpacking, each with its filter's number.
int64_t bytes_of_rows(int64_t width, int64_t height, int64_t bits_of_pixel, bool interlaced) {
  const auto part = [&](int64_t columns, int64_t rows) {
    return columns < 1 || rows < 1 ? 0 : rows * (1 + (columns * bits_of_pixel + 7) / 8);
  };
  if (!interlaced) return part(width, height);
  // Adam7 (PNG specification, 8.2): each pass has a first pixel in an 8 x 8 square, and steps from there.
  constexpr std::array<std::array<int64_t, 4>, 7> passes = {
      {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}};
  int64_t sum = 0;
  for (const auto& [x, y, across, down] : passes)
    sum += part((width - x + across - 1) / across, (height - y + down - 1) / down);
  return sum;
}

/// A counter of the unpacked bytes of the image's chunks: a decoder would leave missing parts of a picture black.
class ImageData {
 public:
  explicit ImageData(const std::filesystem::path& file) : file_(file) {
    if (inflateInit(&stream_) != Z_OK) throw std::bad_alloc();
  }
  ~ImageData() { inflateEnd(&stream_); }
  ImageData(const ImageData&) = delete;
  ImageData& operator=(const ImageData&) = delete;

  void add(Bytes packed, int64_t wanted) {
    stream_.next_in = const_cast<uint8_t*>(packed.data());  // zlib does not write to its input
    stream_.avail_in = static_cast<uInt>(packed.size());
    while (stream_.avail_in > 0 && !ended_ && count_ <= wanted) {
      std::array<uint8_t, 16384> away;
      stream_.next_out = away.data();
      stream_.avail_out = away.size();
      const int state = inflate(&stream_, Z_NO_FLUSH);
      count_ += static_cast<int64_t>(away.size() - stream_.avail_out);
      ended_ = state == Z_STREAM_END;
      if (state != Z_OK && !ended_)
        refuse(file_, fmt::format("is damaged: {}", stream_.msg ? stream_.msg : "it cannot be unpacked"));
    }
  }
  int64_t count() const { return count_; }

 private:
  const std::filesystem::path& file_;
  z_stream stream_ = {};
  int64_t count_ = 0;
  bool ended_ = false;
};

struct Looked {
  PictureSides sides;
  bool png = false;
  int64_t small_bits = 0;  // bits of a grey PNG's values, if fewer than 8
};

Looked check_png(Bytes bytes, const std::filesystem::path& file) {
  constexpr size_t kHeaderEnd = kSignature + 8 + 13;
  if (bytes.size() < kHeaderEnd + 4) refuse(file, "ends inside its header: it is truncated");
  if (big_endian(bytes, kSignature) != 13 || std::string_view(reinterpret_cast<const char*>(&bytes[12]), 4) != "IHDR")
    refuse(file, "is a PNG picture without a header: it is damaged");
  const int64_t width = big_endian(bytes, 16), height = big_endian(bytes, 20);
  const int bits = bytes[24], colour = bytes[25];
  check_sides(width, height, file);
  const int64_t channels = colour == 2 ? 3 : colour == 4 ? 2 : colour == 6 ? 4 : 1;
  const bool byte_wise = bits == 8 || bits == 16, small = bits == 1 || bits == 2 || bits == 4;
  const bool known = colour == 0   ? byte_wise || small
                     : colour == 3 ? small || bits == 8
                                   : (colour == 2 || colour == 4 || colour == 6) && byte_wise;
  if (!known || bytes[26] != 0 || bytes[27] != 0 || bytes[28] > 1)
    refuse(file,
           fmt::format("says colours of kind {} in {} bits, which PNG does not have: it is damaged", colour, bits));
  if (const int64_t bytes = (width * height * channels * bits + 7) / 8; bytes > kMaxDecodedBytes)
    refuse(file,
           fmt::format("says {} x {} pixels of {} x {} bits, {} bytes; allowed: {}; make it smaller, or save 8 bits",
                       width, height, channels, bits, bytes, kMaxDecodedBytes));
  const int64_t rows = bytes_of_rows(width, height, channels * bits, bytes[28] == 1);
  ImageData image(file);
  for (size_t at = kSignature;;) {
    if (bytes.size() - at < 12) refuse(file, "ends before its last chunk: it is truncated");
    const size_t length = big_endian(bytes, at);
    if (length > bytes.size() - at - 12) refuse(file, "ends inside a chunk: it is truncated");
    const Bytes body = bytes.subspan(at + 4, length + 4);
    const std::string_view type(reinterpret_cast<const char*>(body.data()), 4);
    if (crc32_z(0, body.data(), body.size()) != big_endian(bytes, at + 8 + length))
      refuse(file, "is damaged: a chunk's checksum is another");
    if (type == "IEND") break;
    if (type == "IDAT") image.add(body.subspan(4), rows);
    at += 12 + length;
  }
  if (image.count() != rows)
    refuse(file, fmt::format("says {} x {} pixels, and holds {} of their {} bytes: it is damaged", width, height,
                             image.count() > rows ? "more" : std::to_string(image.count()), rows));
  return {{width, height}, true, colour == 0 && small ? bits : 0};
}

/// Returns the sides in the frame's header, and checks for the end of the image's data: a decoder would leave missing
/// parts grey.
Looked check_jpeg(Bytes bytes, const std::filesystem::path& file) {
  constexpr uint8_t kScan = 0xda, kEnd = 0xd9;
  Looked looked;
  size_t scan = 0;
  for (size_t at = 2; scan == 0;) {
    while (at < bytes.size() && bytes[at] == 0xff) ++at;  // a marker may begin with several of these bytes
    if (bytes.size() < at + 3 || bytes[at - 1] != 0xff)
      refuse(file, "ends inside its header: it is truncated or damaged");
    const uint8_t marker = bytes[at];
    const size_t length = size_t{bytes[at + 1]} << 8 | bytes[at + 2];
    if (length < 2 || length > bytes.size() - at - 1)
      refuse(file, "ends inside its header: it is truncated or damaged");
    // SOF0 to SOF15, except the table markers between them.
    if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
      if (length < 8) refuse(file, "has a frame without sizes: it is damaged");
      looked.sides = {int64_t{bytes[at + 6]} << 8 | bytes[at + 7], int64_t{bytes[at + 4]} << 8 | bytes[at + 5]};
      check_sides(looked.sides.width, looked.sides.height, file);
    }
    at += 1 + length;
    if (marker == kScan) scan = at;
  }
  if (looked.sides.width == 0) refuse(file, "has no frame: it is damaged");
  // A scan's data cannot contain 0xff 0xd9: a 0 follows each 0xff.
  int64_t scans = 1;
  for (size_t at = scan; at + 1 < bytes.size(); ++at) {
    if (bytes[at] != 0xff) continue;
    if (bytes[at + 1] == kEnd) return looked;
    if (bytes[at + 1] == kScan && ++scans > kMaxScans)
      refuse(file, fmt::format("has more than {} scans: it is damaged, or made to take long", kMaxScans));
  }
  refuse(file, "ends before its picture does: it is truncated");
}

Bytes bytes_of(const MappedFile& file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), static_cast<size_t>(file.size())};
}

Looked look_through(const MappedFile& file, const std::filesystem::path& path) {
  if (file.size() > kMaxPictureFileBytes) refuse(path, "is larger than any picture that is read (1 GiB)");
  const Bytes bytes = bytes_of(file);
  const std::string_view kind = file_kind(std::as_bytes(bytes));
  if (kind == "a PNG picture") return check_png(bytes, path);
  if (kind == "a JPEG picture") return check_jpeg(bytes, path);
  refuse(path, fmt::format("is no PNG or JPEG picture{}{}", kind.empty() ? "" : "; it is ", kind));
}

}  // namespace

std::string Picture::describe_sizes() const {
  return fmt::format("{} x {}", width, height);
}

PictureSides validate_picture(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  const PictureSides sides = look_through(file, path).sides;
  file.require_whole();
  return sides;
}

Picture read_picture(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  const Looked looked = look_through(file, path);
  const Bytes bytes = bytes_of(file);
  require_data_memory(
      path.string(), fmt::format("says {} x {} pixels", looked.sides.width, looked.sides.height),
      static_cast<double>(looked.sides.width) * static_cast<double>(looked.sides.height) * kMaxPixelBytes +
          2.0 * static_cast<double>(file.size()));
  std::vector<uint8_t> copied(bytes.begin(), bytes.end());
  file.require_whole();
  Picture picture = decode_picture(path, copied, looked.png);
  if (picture.width != looked.sides.width || picture.height != looked.sides.height)
    refuse(path, "is damaged: its header says other sizes than its picture has");
  picture.exact = looked.png;
  if (looked.small_bits == 2 || looked.small_bits == 4) {  // FFmpeg scales the values to 8 bits
    picture.greatest = (1 << looked.small_bits) - 1;
    const auto step = static_cast<uint16_t>(255 / picture.greatest);
    for (uint16_t& number : picture.numbers) number /= step;
  }
  return picture;
}

Picture in_colours(Picture picture) {
  if (picture.palette.empty()) return picture;
  std::vector<uint16_t> colours(picture.numbers.size() * 3);
  for (size_t i = 0; i < colours.size(); ++i) colours[i] = picture.palette[picture.numbers[i / 3] * size_t{3} + i % 3];
  picture.numbers = std::move(colours);
  picture.channels = 3;
  picture.greatest = 255;
  picture.palette.clear();
  return picture;
}

}  // namespace plimsoll
