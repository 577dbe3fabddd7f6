// Declares small videos and sounds for tests, uncompressed, so that decoded values are known exactly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "test_files.h"

namespace plimsoll {

/// Writes a YUV4MPEG2 video of gray pictures, one of each brightness (0 to 255 before video range), `rate` a second.
inline std::string gray_video(const std::vector<int>& brightness, int width, int height, int rate) {
  std::string file = "YUV4MPEG2 W" + std::to_string(width) + " H" + std::to_string(height) + " F" +
                     std::to_string(rate) + ":1 Ip A1:1 C420jpeg\n";
  const auto area = static_cast<size_t>(width) * static_cast<size_t>(height);
  for (const int gray : brightness) {
    file += "FRAME\n";
    file.append(area, static_cast<char>(16 + (gray * 219 + 127) / 255));  // 16 to 235 is black to white
    file.append(area / 2, static_cast<char>(128));
  }
  return file;
}

/// Writes a WAV file of 16-bit samples, channels interleaved.
inline std::string wav(const std::vector<int16_t>& samples, int channels, int rate) {
  const auto little = [](uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
    return text;
  };
  const size_t bytes = samples.size() * 2;
  std::string file = "RIFF" + little(36 + bytes, 4) + "WAVEfmt " + little(16, 4) + little(1, 2) +
                     little(static_cast<uint64_t>(channels), 2) + little(static_cast<uint64_t>(rate), 4) +
                     little(static_cast<uint64_t>(rate * channels * 2), 4) +
                     little(static_cast<uint64_t>(channels * 2), 2) + little(16, 2) + "data" + little(bytes, 4);
  for (const int16_t sample : samples) file += little(static_cast<uint16_t>(sample), 2);
  return file;
}

}  // namespace plimsoll
