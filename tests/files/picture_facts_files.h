// Declares parts of PNG and JPEG files for tests that say how a picture is shown, written byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "files/png_files.h"

namespace plimsoll {

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
