// Makes PNG and JPEG files for tests: pictures and masks, and files with each fact that a reader treats.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "plimsoll/sample_data.h"
#include "test_files.h"

extern "C" {
#include <libavcodec/avcodec.h>
}

#include <stdexcept>

namespace plimsoll {

/// Returns a picture of one gray level, or with its right half of another: 0 to 255. Colors are stored at half the
/// size.
inline std::string jpeg(int width, int height, int left, int right) {
  const auto need = [](bool good) {
    if (!good) throw std::runtime_error("the test's picture cannot be encoded");
  };
  AVCodecContext* codec = avcodec_alloc_context3(avcodec_find_encoder(AV_CODEC_ID_MJPEG));
  codec->width = width;
  codec->height = height;
  codec->time_base = {1, 1};
  codec->pix_fmt = AV_PIX_FMT_YUVJ420P;
  codec->color_range = AVCOL_RANGE_JPEG;
  codec->flags |= AV_CODEC_FLAG_QSCALE;
  codec->global_quality = 2 * FF_QP2LAMBDA;
  codec->thread_count = 1;
  need(avcodec_open2(codec, nullptr, nullptr) >= 0);
  AVFrame* frame = av_frame_alloc();
  frame->format = codec->pix_fmt;
  frame->width = width;
  frame->height = height;
  frame->quality = codec->global_quality;
  need(av_frame_get_buffer(frame, 0) >= 0);
  for (int plane = 0; plane < 3; ++plane)
    for (int y = 0; y < (plane == 0 ? height : (height + 1) / 2); ++y)
      for (int x = 0; x < (plane == 0 ? width : (width + 1) / 2); ++x)
        frame->data[plane][y * frame->linesize[plane] + x] = static_cast<uint8_t>(plane > 0       ? 128
                                                                                  : x < width / 2 ? left
                                                                                                  : right);
  AVPacket* packet = av_packet_alloc();
  need(avcodec_send_frame(codec, frame) >= 0 && avcodec_receive_packet(codec, packet) >= 0);
  std::string bytes(reinterpret_cast<const char*>(packet->data), static_cast<size_t>(packet->size));
  av_packet_free(&packet);
  av_frame_free(&frame);
  avcodec_free_context(&codec);
  return bytes;
}

// PNG files, written byte by byte, so that decoded values are known exactly.

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

// Small pictures with masks: a bright square and a dark one at random positions on noise.

constexpr int64_t kSceneSide = 24;

/// A picture of the bright square, value 5 in the mask, and the dark one, value 9.
struct Scene {
  std::vector<uint16_t> picture, mask;
};

inline Scene scene(uint32_t number) {
  std::mt19937 random(number);
  Scene made;
  const auto left = 1 + random() % 4, top = 1 + random() % 12, other_left = 13 + random() % 4,
             other_top = 1 + random() % 12;
  for (uint32_t y = 0; y < kSceneSide; ++y)
    for (uint32_t x = 0; x < kSceneSide; ++x) {
      const bool bright = x - left < 7 && y - top < 8, dark = x - other_left < 6 && y - other_top < 9;
      made.mask.push_back(bright ? 5 : dark ? 9 : 0);
      made.picture.push_back(static_cast<uint16_t>((bright ? 200 : dark ? 40 : 120) + random() % 30));
    }
  return made;
}

/// Writes `count` pictures and masks in folders, with their numbers as names, and returns a job's data with them. Only
/// `distinct` of them differ: picture i is scene i modulo `distinct`.
inline DataConfig scenes(const TempFolder& folder, uint32_t count, uint32_t distinct) {
  std::filesystem::create_directories(folder / "images");
  std::filesystem::create_directories(folder / "masks");
  for (uint32_t i = 0; i < count; ++i) {
    const Scene made = scene(i % distinct);
    const std::string name = "scene" + std::to_string(i) + ".png";
    put_file(folder / ("images/" + name), png(kSceneSide, kSceneSide, 8, kPngGray, made.picture));
    put_file(folder / ("masks/" + name), png(kSceneSide, kSceneSide, 4, kPngPalette, made.mask));
  }
  DataConfig config;
  config.type = "pictures";
  config.pictures.images = folder / "images";
  config.pictures.masks = folder / "masks";
  config.slices.label_names = put_file(folder / "names.txt", "5 bright square\n9 dark square\n");
  config.slices.min_pixels = 4;
  config.validation_fraction = 0.25;
  return config;
}

/// Writes `count` scenes that all differ.
inline DataConfig scenes(const TempFolder& folder, uint32_t count) {
  return scenes(folder, count, count);
}

/// Returns a PNG with further chunks in front of its palette and image; tRNS chunks come behind the palette.
inline std::string with_chunks(std::string png, const std::vector<std::string>& chunks) {
  const auto at_chunk = [&](const char* type) { return png.find(type) - 4; };
  for (const std::string& chunk : chunks) png.insert(chunk.substr(4, 4) == "tRNS" ? at_chunk("IDAT") : 33, chunk);
  return png;
}

/// Returns a JPEG with a further segment behind its first marker.
inline std::string with_segment(const std::string& jpeg, uint8_t marker, const std::string& body) {
  return jpeg.substr(0, 2) + '\xff' + static_cast<char>(marker) + big_endian(body.size() + 2, 2) + body +
         jpeg.substr(2);
}

/// Returns EXIF data with a camera's name and an orientation.
inline std::string exif_of(int orientation, bool little) {
  const auto number = [&](uint64_t value, int bytes) {
    const std::string text = big_endian(value, bytes);
    return little ? std::string(text.rbegin(), text.rend()) : text;
  };
  const auto entry = [&](int tag, int type, int count, const std::string& value) {
    return number(uint64_t(tag), 2) + number(uint64_t(type), 2) + number(uint64_t(count), 4) + value;
  };
  return (little ? "II" : "MM") + number(42, 2) + number(8, 4) + number(2, 2) +
         entry(0x010f, 2, 4, std::string("cam\0", 4)) +
         entry(0x0112, 3, 1, number(uint64_t(orientation), 2) + number(0, 2)) + number(0, 4);
}

/// Returns EXIF data as ImageMagick writes them into a text of a PNG.
inline std::string raw_profile(const std::string& bytes) {
  std::string text = "\nexif\n" + std::string(6, ' ') + std::to_string(bytes.size()) + "\n";
  for (size_t i = 0; i < bytes.size(); ++i) {
    constexpr const char* kDigits = "0123456789abcdef";
    const auto byte = static_cast<uint8_t>(bytes[i]);
    (text += kDigits[byte >> 4]) += kDigits[byte & 15];
    if (i % 36 == 35) text += '\n';
  }
  return text + '\n';
}

/// Returns a color profile that is a header and a description; in the form of version 4 or 2.
inline std::string icc_profile(const std::string& name, bool newer) {
  std::string body;
  if (newer) {
    std::string wide;
    for (const char letter : name) (wide += '\0') += letter;
    body = "mluc" + big_endian(0, 4) + big_endian(1, 4) + big_endian(12, 4) + "enUS" + big_endian(wide.size(), 4) +
           big_endian(28, 4) + wide;
  } else {
    body = "desc" + big_endian(0, 4) + big_endian(name.size() + 1, 4) + name + '\0';
  }
  return std::string(128, '\0') + big_endian(2, 4) + "wtpt" + big_endian(0, 8) + "desc" + big_endian(156, 4) +
         big_endian(body.size(), 4) + body;
}

}  // namespace plimsoll
