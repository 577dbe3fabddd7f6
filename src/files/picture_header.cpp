#include "files/picture_header.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

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

namespace {

// Largest decoded PNG in bytes: 100 million pixels of red, green and blue in 8 bits take 300 MB.
constexpr int64_t kMaxDecodedBytes = int64_t{512} << 20;
constexpr size_t kSignature = 8;
// Largest text or color profile in bytes that is unpacked; longer ones are read up to there.
constexpr size_t kMaxUnpackedText = size_t{1} << 20;

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

  void add(PictureBytes packed, int64_t wanted) {
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
        refuse_picture(file_, fmt::format("is damaged: {}", stream_.msg ? stream_.msg : "it cannot be unpacked"));
    }
  }
  int64_t count() const { return count_; }

 private:
  const std::filesystem::path& file_;
  z_stream stream_ = {};
  int64_t count_ = 0;
  bool ended_ = false;
};

/// Returns at most kMaxUnpackedText bytes of packed ones; fewer if they are damaged.
std::vector<uint8_t> unpacked(PictureBytes packed) {
  std::vector<uint8_t> bytes(kMaxUnpackedText);
  z_stream stream = {};
  if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  stream.next_in = const_cast<uint8_t*>(packed.data());  // zlib does not write to its input
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = bytes.data();
  stream.avail_out = static_cast<uInt>(bytes.size());
  inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return {bytes.begin(), bytes.end() - stream.avail_out};
}

/// Chunks that say how the picture is shown.
class ShownChunks {
 public:
  void add(std::string_view type, PictureBytes body) {
    if (type == "eXIf" && exif_.empty()) exif_.assign(body.begin(), body.end());
    if (type == "tEXt" || type == "zTXt" || type == "iTXt") add_text(type, body);
    if (type == "gAMA" && body.size() >= 4) gamma_ = big_endian_number(body, 0) / 1e5;
    if (type == "sRGB") srgb_ = true;
    if (type == "tRNS") transparent_ = true;
    if (type == "acTL") animated_ = true;
    if (type == "cICP" && body.size() >= 4) transfer_ = body[1];
    if (type == "iCCP" && !profile_)
      if (const auto name_end = std::ranges::find(body, uint8_t{0}); body.end() - name_end > 2)
        profile_ = profile_note(unpacked({name_end + 2, body.end()}));
  }

  void describe(PictureHeader& header, const std::filesystem::path& file) const {
    const PictureBytes raw = raw_exif_;
    header.orientation = picture_orientation(exif_.empty() ? raw : PictureBytes(exif_), xmp_, file);
    if (transfer_ == 16)
      refuse_picture(file,
                     "is an HDR picture (PQ, SMPTE ST 2084), whose values are not the brightness that people see; "
                     "convert it to SDR");
    header.alpha |= transparent_;
    if (header.alpha) header.notes.emplace_back("transparent pixels are shown on white");
    if (transfer_ == 18)
      header.notes.emplace_back("the picture is HDR (HLG): its values are read as a screen without HDR shows them");
    if (profile_) {
      if (!profile_->empty()) header.notes.push_back(*profile_);
    } else if (!srgb_ && gamma_ > 0 && (gamma_ < 0.44 || gamma_ > 0.47)) {
      header.notes.push_back(
          fmt::format("the gamma {:.3g} is not applied: values are read as they are stored, as Pillow does", gamma_));
    }
    if (animated_) header.notes.emplace_back("the picture is animated: only its still picture is read");
  }

 private:
  void add_text(std::string_view type, PictureBytes body) {
    const std::string_view all(reinterpret_cast<const char*>(body.data()), body.size());
    const size_t end = all.find('\0');
    if (end == std::string_view::npos) return;
    const std::string_view key = all.substr(0, end);
    const bool raw = key == "Raw profile type exif" || key == "Raw profile type APP1", xmp = key == "XML:com.adobe.xmp";
    if (!raw && !xmp) return;
    // Only the first of each kind: a small file may repeat one that unpacks to a MiB.
    if (std::exchange(xmp ? xmp_seen_ : raw_seen_, true)) return;
    size_t begin = end + 1;
    bool packed = type == "zTXt";
    if (packed) begin += 1;
    if (type == "iTXt") {  // two numbers, a language, the key in that language
      packed = begin < body.size() && body[begin] == 1;
      begin += 2;
      for (int texts = 0; texts < 2; ++texts) {
        const size_t zero = all.find('\0', std::min(begin, all.size()));
        if (zero == std::string_view::npos) return;
        begin = zero + 1;
      }
    }
    if (begin > body.size()) return;
    const PictureBytes rest = body.subspan(begin);
    const std::vector<uint8_t> bytes = packed ? unpacked(rest) : std::vector<uint8_t>(rest.begin(), rest.end());
    if (xmp) xmp_.assign(bytes.begin(), bytes.end());
    if (raw) raw_exif_ = of_hexadecimal({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  /// ImageMagick's form: a line break, a name, a number of bytes, and their hexadecimal digits in lines.
  static std::vector<uint8_t> of_hexadecimal(std::string_view text) {
    for (int lines = 0; lines < 3; ++lines) {
      const size_t end = text.find('\n');
      if (end == std::string_view::npos) return {};
      text.remove_prefix(end + 1);
    }
    std::vector<uint8_t> bytes;
    int pending = -1;
    for (const char letter : text) {
      const int digit = letter >= '0' && letter <= '9'   ? letter - '0'
                        : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
                        : letter >= 'A' && letter <= 'F' ? letter - 'A' + 10
                                                         : -1;
      if (digit < 0) continue;
      if (pending >= 0) bytes.push_back(static_cast<uint8_t>(pending << 4 | digit));
      pending = pending >= 0 ? -1 : digit;
    }
    constexpr std::array<uint8_t, 6> kBegin = {'E', 'x', 'i', 'f', 0, 0};
    if (bytes.size() >= kBegin.size() && std::equal(kBegin.begin(), kBegin.end(), bytes.begin()))
      bytes.erase(bytes.begin(), bytes.begin() + kBegin.size());
    return bytes;
  }

  std::vector<uint8_t> exif_, raw_exif_;
  std::string xmp_;
  double gamma_ = 0;  // exponent with which values were encoded; 0: not stated
  bool srgb_ = false, transparent_ = false, animated_ = false;
  bool xmp_seen_ = false, raw_seen_ = false;
  int transfer_ = 0;                    // of ITU-T H.273; 0: not stated
  std::optional<std::string> profile_;  // note about the color profile; empty text: sRGB
};

}  // namespace

PictureHeader check_png(PictureBytes bytes, const std::filesystem::path& file) {
  constexpr size_t kHeaderEnd = kSignature + 8 + 13;
  if (bytes.size() < kHeaderEnd + 4) refuse_picture(file, "ends inside its header: it is truncated");
  if (big_endian_number(bytes, kSignature) != 13 ||
      std::string_view(reinterpret_cast<const char*>(&bytes[12]), 4) != "IHDR")
    refuse_picture(file, "is a PNG picture without a header: it is damaged");
  const int64_t width = big_endian_number(bytes, 16), height = big_endian_number(bytes, 20);
  const int bits = bytes[24], color = bytes[25];
  check_picture_sides(width, height, file);
  const int64_t channels = color == 2 ? 3 : color == 4 ? 2 : color == 6 ? 4 : 1;
  const bool byte_wise = bits == 8 || bits == 16, small = bits == 1 || bits == 2 || bits == 4;
  const bool known = color == 0   ? byte_wise || small
                     : color == 3 ? small || bits == 8
                                  : (color == 2 || color == 4 || color == 6) && byte_wise;
  if (!known || bytes[26] != 0 || bytes[27] != 0 || bytes[28] > 1)
    refuse_picture(
        file, fmt::format("says colors of kind {} in {} bits, which PNG does not have: it is damaged", color, bits));
  if (const int64_t bytes = (width * height * channels * bits + 7) / 8; bytes > kMaxDecodedBytes)
    refuse_picture(
        file, fmt::format("says {} x {} pixels of {} x {} bits, {} bytes; allowed: {}; make it smaller, or save 8 bits",
                          width, height, channels, bits, bytes, kMaxDecodedBytes));
  const int64_t rows = bytes_of_rows(width, height, channels * bits, bytes[28] == 1);
  ImageData image(file);
  ShownChunks shown;
  for (size_t at = kSignature;;) {
    if (bytes.size() - at < 12) refuse_picture(file, "ends before its last chunk: it is truncated");
    const size_t length = big_endian_number(bytes, at);
    if (length > bytes.size() - at - 12) refuse_picture(file, "ends inside a chunk: it is truncated");
    const PictureBytes body = bytes.subspan(at + 4, length + 4);
    const std::string_view type(reinterpret_cast<const char*>(body.data()), 4);
    if (crc32_z(0, body.data(), body.size()) != big_endian_number(bytes, at + 8 + length))
      refuse_picture(file, "is damaged: a chunk's checksum is another");
    if (type == "IEND") break;
    if (type == "IDAT") image.add(body.subspan(4), rows);
    shown.add(type, body.subspan(4));
    at += 12 + length;
  }
  if (image.count() != rows)
    refuse_picture(file, fmt::format("says {} x {} pixels, and holds {} of their {} bytes: it is damaged", width,
                                     height, image.count() > rows ? "more" : std::to_string(image.count()), rows));
  PictureHeader header;
  header.width = width;
  header.height = height;
  header.png = true;
  header.alpha = color == 4 || color == 6;
  if (color == 0 && small) header.small_bits = bits;
  shown.describe(header, file);
  return header;
}

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
