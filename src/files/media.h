// Pictures and sound out of video and audio files, decoded by FFmpeg. FFmpeg's libraries are behind a library of their
// own, libplimsoll_media, which is loaded at the first call: who reads no videos needs no FFmpeg.
//
// All functions may be called from many threads at once. They throw UserError (failure) that names the file and what
// is the matter with it: not a video, no video stream, cut short, too large. Only regular local files are opened; what
// a file refers to (playlists, network addresses) is not, and playlists are no files that are read: MP4 and MOV,
// Matroska and WebM, AVI, MPEG, FLV, ASF, Ogg, MXF, DV, GIF, APNG, YUV4MPEG and bare H.264, H.265 and MPEG-4 streams
// are; WAV, AIFF, AU, CAF, MP3, FLAC, AAC and AC-3 for sound. A rotation that a file asks for is not applied.
//
// Codecs are those that are common in these formats (kCodecs in files/media/media_file.cpp). Bounds beside those of a
// call (below): files/media/media_file.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "files/picture.h"

namespace plimsoll {

/// What a video file says of itself: of its first video stream.
struct VideoInfo {
  double seconds = 0;     ///< length
  double frame_rate = 0;  ///< frames a second, on average
  int64_t frames = 0;     ///< as the file counts them, or else length x rate
  int64_t width = 0, height = 0;
  bool audio = false;  ///< it has sound that can be read
};

constexpr int64_t kLargestPictureSide = 8192;            ///< of a picture that is asked for
constexpr int64_t kMostPictures = int64_t{1} << 16;      ///< of one call
constexpr int64_t kMostPictureBytes = int64_t{1} << 33;  ///< of one call
constexpr int64_t kHighestSampleRate = 384'000;
constexpr int64_t kMostAudioSamples = int64_t{1} << 28;  ///< after resampling

VideoInfo describe_video(const std::filesystem::path& path);

/// The middles of `count` equal parts of [start, end): where a clip is looked at.
std::vector<double> evenly_spaced(double start, double end, int64_t count);

/// The pictures shown at `seconds` (from the first picture on, ascending), scaled to `width` x `height` whatever their
/// shape: uint8 [seconds.size(), height, width, 3], red, green, blue. Averages areas where it makes pictures smaller,
/// bicubic where larger. A video that ends before the last of `seconds` is an error.
std::vector<uint8_t> read_frames(const std::filesystem::path& path, const std::vector<double>& seconds, int64_t width,
                                 int64_t height);

/// The best audio stream, all channels mixed into one, at `sample_rate` samples a second, within [-1, 1] or a little
/// beyond. Sound with a part that cannot be decoded, or that ends before the file says, is an error.
std::vector<float> read_audio(const std::filesystem::path& path, int64_t sample_rate);

/// A PNG or JPEG file that lies in memory, for read_picture() (files/picture.h), which has looked through it; `path` is
/// for messages.
Picture decode_picture(const std::filesystem::path& path, const std::vector<uint8_t>& bytes, bool png);

/// Loads the library from the first of `candidates` that can be loaded; the functions above call it with the folder of
/// libplimsoll and then the system's. UserError that names the Debian packages where there is none. For tests.
void load_media_library(const std::vector<std::string>& candidates);

}  // namespace plimsoll
