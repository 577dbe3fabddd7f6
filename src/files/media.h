// Declares readers of pictures, videos and sound through FFmpeg, which is loaded on first use, and the decoded
// frames that are kept.
//
// All functions may be called from many threads at the same time. They throw UserError that names the file
// and the error: not a video, no video stream, cut short, too large. Only regular local files are opened; references in
// a file (playlists, network addresses) are not followed, and playlists are not read. Readable video files are MP4 and
// MOV, Matroska and WebM, AVI, MPEG, FLV, ASF, Ogg, MXF, DV, GIF, APNG, YUV4MPEG and bare H.264, H.265 and MPEG-4
// streams. Readable sound files are WAV, AIFF, AU, CAF, MP3, FLAC, AAC and AC-3.
//
// Pictures are upright, as people see them: the display matrix that phones write is applied. Facts of the pictures that
// are refused or noted are in files/ffmpeg_display.h.
//
// Codecs are those that are common in these formats (kCodecs in files/ffmpeg_file.cpp). In addition to the bounds
// of a call (below), those in files/ffmpeg_file.h hold.
#pragma once

#include <complex>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/picture.h"
#include "files/picture_header.h"

namespace plimsoll {

/// Properties of the best video stream of a file, as the file and its first frame state them.
struct VideoInfo {
  double seconds = 0;                  ///< length
  double frame_rate = 0;               ///< frames per second, on average
  int64_t frames = 0;                  ///< the file's count, or else length x rate
  int64_t width = 0, height = 0;       ///< upright, in square pixels
  Orientation orientation = kUpright;  ///< turns and mirrors the stored pictures
  bool alpha = false;                  ///< pixels may be transparent
  bool audio = false;                  ///< it has sound that can be read
  std::vector<std::string> notes;      ///< facts of the pictures that some players show in another way
};

constexpr int64_t kMaxPictureSide = 8192;               ///< largest width or height of a requested picture, pixels
constexpr int64_t kMaxPictures = int64_t{1} << 16;      ///< largest number of pictures in one call
constexpr int64_t kMaxPictureBytes = int64_t{1} << 33;  ///< largest number of bytes in one call
constexpr int64_t kMaxSampleRate = 384'000;
constexpr int64_t kMaxAudioSamples = int64_t{1} << 28;  ///< after resampling

/// Describes a video, and notes its `notes` (files/file_kind.h). Decodes the first frame.
VideoInfo describe_video(const std::filesystem::path& path);

/// Returns the midpoints of `count` equal parts of [start, end): the times at which a clip is sampled.
std::vector<double> evenly_spaced(double start, double end, int64_t count);

/// Returns the pictures, upright, that are shown at `seconds` (from the first picture on, ascending), scaled to `width`
/// x `height` without regard to their aspect ratio: uint8 [seconds.size(), height, width, 3], red, green, blue. Scaling
/// averages areas if pictures get smaller, and is bicubic if they get larger. A video that ends before the last of
/// `seconds` is an error.
std::vector<uint8_t> read_frames(const std::filesystem::path& path, const std::vector<double>& seconds, int64_t width,
                                 int64_t height);

/// Returns the best audio stream, all channels mixed into one, at `sample_rate` samples per second, within [-1, 1] or
/// slightly beyond. Sound with a part that cannot be decoded, or that ends before its stated length, is an error.
std::vector<float> read_audio(const std::filesystem::path& path, int64_t sample_rate);

/// Decodes a PNG or JPEG file in memory for read_picture() (files/picture.h), which has validated it; `path` is for
/// messages.
Picture decode_picture(const std::filesystem::path& path, const std::vector<uint8_t>& bytes, bool png);

/// Loads the library from the first of `candidates` that can be loaded; the functions above call it with the folder of
/// libplimsoll and then the system's. Throws UserError that names the Debian packages if there is none. For tests.
void load_media_library(const std::vector<std::string>& candidates);

/// A discrete Fourier transform of one size in double precision, to be used by one thread at a time. It is FFmpeg's.
class FourierTransform {
 public:
  FourierTransform() = default;
  FourierTransform(const FourierTransform&) = delete;
  FourierTransform& operator=(const FourierTransform&) = delete;
  virtual ~FourierTransform() = default;

  /// Returns sum over n of values[n] exp(-2 pi i n k / size) for each k, valid until the next call. `values` has `size`
  /// values.
  virtual std::span<const std::complex<double>> of(std::span<std::complex<double>> values) = 0;
};

/// Returns a transform of `size` values, a power of two. Throws UserError (failure) if FFmpeg cannot be loaded.
std::unique_ptr<FourierTransform> make_fourier_transform(int64_t size);

/// A video or sound file at the time of look_at().
struct VideoFile {
  std::filesystem::path path;  ///< canonical
  int64_t bytes = 0;
  int64_t changed_at = 0;  ///< nanoseconds, on the file system's clock

  /// Reads path, size and time of change. Throws UserError that names the file.
  static VideoFile look_at(const std::filesystem::path& path);
};

/// Returns a key that differs for another file, a changed file, or other `contents`. `contents` describes, as text or
/// numbers, all that decides the decoded bytes; it has a version that is raised whenever decoding changes.
uint64_t media_cache_key(const VideoFile& file, std::string_view contents);

/// Returns a text for `contents` of what is applied to the stored pictures so that they are read as people see them:
/// ":seen6", ":white"; "" if nothing is, so that such pictures keep the keys that they had before this was applied.
std::string display_key(const VideoInfo& info);

/// Returns "FOLDER/cockatoo-0123456789abcdef.EXTENSION".
std::filesystem::path media_cache_path(const std::filesystem::path& folder, const VideoFile& file, uint64_t key,
                                       std::string_view extension);

}  // namespace plimsoll
