// Declares the table of functions that libplimsoll calls in libplimsoll_media, which it loads at run time, and the
// functions of that library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "files/media.h"
#include "files/picture.h"

namespace plimsoll::media {

/// Version of the table, raised with every change: a library of another build is refused.
constexpr int kVersion = 5;

/// A table of functions that return an error message, or "" if there is none. No exception crosses from one library
/// into the other.
struct Functions {
  std::string (*describe)(const std::string& path, VideoInfo& info) = nullptr;
  /// `pixels` has room for all pictures.
  std::string (*frames)(const std::string& path, const std::vector<double>& seconds, int64_t width, int64_t height,
                        std::vector<uint8_t>& pixels) = nullptr;
  std::string (*audio)(const std::string& path, int64_t sample_rate, std::vector<float>& samples) = nullptr;
  /// Decodes the bytes of a PNG or JPEG file, which read_picture() has validated.
  std::string (*picture)(const std::vector<uint8_t>& bytes, bool png, Picture& picture) = nullptr;
  std::string (*fourier)(int64_t size, std::unique_ptr<FourierTransform>& transform) = nullptr;
};

/// Type of the one symbol of the library. It returns nullptr for another version.
using FunctionsOf = const Functions* (*)(int version);
constexpr const char* kSymbol = "plimsoll_media_functions";

/// Describe a video file, and read pictures of it. Both throw MediaError (ffmpeg_file.h).
VideoInfo describe(const std::string& path);
void frames(const std::string& path, const std::vector<double>& seconds, int64_t width, int64_t height,
            std::vector<uint8_t>& pixels);

/// Decodes the sound of a file. Throws MediaError.
void audio(const std::string& path, int64_t sample_rate, std::vector<float>& samples);

/// Decodes one PNG or JPEG file, whole in memory. Throws MediaError.
Picture picture(const std::vector<uint8_t>& bytes, bool png);

/// Makes a Fourier transform. Throws MediaError.
std::unique_ptr<FourierTransform> fourier(int64_t size);

}  // namespace plimsoll::media
