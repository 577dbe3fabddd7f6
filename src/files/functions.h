// What libplimsoll asks of libplimsoll_media: a table of functions, so that the one loads the other at run time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "files/media.h"
#include "files/picture.h"

namespace plimsoll::media {

/// Raised with every change of the table: a library of another build is refused.
constexpr int kVersion = 2;

/// Each function returns what is the matter, "" where nothing is. Nothing is thrown from one library into the other.
struct Functions {
  std::string (*describe)(const std::string& path, VideoInfo& info) = nullptr;
  /// `pixels` has room for all pictures.
  std::string (*frames)(const std::string& path, const std::vector<double>& seconds, int64_t width, int64_t height,
                        std::vector<uint8_t>& pixels) = nullptr;
  std::string (*audio)(const std::string& path, int64_t sample_rate, std::vector<float>& samples) = nullptr;
  /// The bytes of a PNG or JPEG file, looked through by read_picture().
  std::string (*picture)(const std::vector<uint8_t>& bytes, bool png, Picture& picture) = nullptr;
};

/// The one symbol of the library: nullptr for another version.
using FunctionsOf = const Functions* (*)(int version);
constexpr const char* kSymbol = "plimsoll_media_functions";

}  // namespace plimsoll::media
