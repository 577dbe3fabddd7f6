// Declares PNG files for tests, written byte by byte, so that decoded values are known exactly.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll {

inline std::string big_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = bytes; i-- > 0;) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

inline std::string png_chunk(const std::string& type, const std::string& body) {
  const std::string all = type + body;
  return big_endian(body.size(), 4) + all +
         big_endian(crc32_z(0, reinterpret_cast<const Bytef*>(all.data()), all.size()), 4);
}

/// Kinds of color, with PNG's numbers.
constexpr int kPngGray = 0, kPngColors = 2, kPngPalette = 3, kPngGrayAlpha = 4, kPngColorsAlpha = 6;

inline std::string png_header(int64_t width, int64_t height, int bits, int color, bool interlaced = false) {
  return png_chunk("IHDR", big_endian(uint64_t(width), 4) + big_endian(uint64_t(height), 4) + char(bits) + char(color) +
                               std::string(2, '\0') + char(interlaced ? 1 : 0));
}

inline std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string packed(size, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(),
            6);
  packed.resize(size);
  return packed;
}

/// Returns a file of `numbers`: a pixel's channels one after the other, row by row. A palette has 2^bits colors: number
/// i is red 3 i, green 5 i, blue 7 i.
inline std::string png(int64_t width, int64_t height, int bits, int color, const std::vector<uint16_t>& numbers) {
  const size_t a_row = numbers.size() / size_t(height);
  std::string rows;
  for (size_t row = 0; row < size_t(height); ++row) {
    rows += '\0';  // not filtered
    unsigned pending = 0;
    int have = 0;
    for (size_t i = 0; i < a_row; ++i) {
      pending = pending << bits | numbers[row * a_row + i];
      for (have += bits; have >= 8; have -= 8) rows += char(pending >> (have - 8) & 0xff);
    }
    if (have > 0) rows += char(pending << (8 - have) & 0xff);
  }
  std::string palette;
  for (int i = 0; color == kPngPalette && i < 1 << bits; ++i) palette += {char(3 * i), char(5 * i), char(7 * i)};
  return "\x89PNG\r\n\x1a\n" + png_header(width, height, bits, color) +
         (palette.empty() ? "" : png_chunk("PLTE", palette)) + png_chunk("IDAT", deflated(rows)) +
         png_chunk("IEND", "");
}

}  // namespace plimsoll
