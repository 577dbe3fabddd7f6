// Declares how the pictures of a video are shown: turned, mirrored, scaled, with pixels that are no squares. Declares
// what the readers of videos and sound do with each fact of a file.
#pragma once

extern "C" {
#include <libswscale/swscale.h>
}

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/ffmpeg_file.h"
#include "files/file_kind.h"
#include "files/picture_header.h"

namespace plimsoll::media {

/// Returns how a frame is shown: by its own display matrix; if it has none, as the frame before it (`before`); the
/// first frame by its stream's matrix. Streams have the matrix of several frames once, in the first of them. Throws
/// MediaError for a matrix that is no rotation by quarter turns with or without a mirror, and for two matrices that
/// differ.
Orientation orientation_of(const AVStream& stream, const AVFrame& frame, std::optional<Orientation> before = {});

/// Throws MediaError if the values of a frame are not those of a screen's red, green and blue: PQ, Dolby Vision without
/// a base that screens show, matrices that libswscale does not have.
void check_colors(const AVStream& stream, const AVFrame& frame);

/// Returns true if frames of this format may be transparent.
bool has_alpha(const AVFrame& frame);

/// Returns notes about a frame that is read otherwise than some players show it: interlaced, HLG, panoramas, two views,
/// with a tag that no player applies.
std::vector<std::string> notes_of(const AVStream& stream, const AVFrame& frame);

/// Sides of a frame in square pixels, upright.
struct SeenSides {
  int64_t width = 0, height = 0;
};
SeenSides seen_sides(AVFormatContext& format, AVStream& stream, AVFrame& frame, Orientation orientation);

struct FreeScaling {
  void operator()(SwsContext* context) const { sws_freeContext(context); }
};

/// A conversion of pictures to other sides and another format; it keeps libswscale's tables for the next picture.
class Conversion {
 public:
  /// Converts `frame` into `to`, whose format, sides and buffer are set. Throws MediaError.
  void convert(const AVFrame& frame, int flags, AVFrame& to);

 private:
  std::unique_ptr<SwsContext, FreeScaling> context_;
};

/// A white page of the sides of a frame, on which its transparent pixels are mixed with white by their alpha.
class WhitePage {
 public:
  /// Returns false if no pixel of the frame is transparent, or if all are wholly transparent: then the values that
  /// should be alphas are unused bytes, and players show the colors. Throws MediaError.
  bool put(const AVFrame& frame);
  const AVFrame& page() const { return *page_; }  ///< after put() returned true

 private:
  Conversion conversion_;
  Frame page_;
};

/// A converter of pictures of any format and size to upright RGB pictures of one size.
class Scaler {
 public:
  Scaler(int width, int height) : width_(width), height_(height) {}

  /// Writes uint8 [height, width, 3]. Scales first and turns the small picture then: the scale along a side of the
  /// stored picture is the same. Throws MediaError.
  void scale(const AVFrame& frame, Orientation orientation, uint8_t* out);

 private:
  int width_, height_;
  Conversion conversion_;
  WhitePage page_;
  Frame picture_;  ///< sides as stored
};

/// The treatment of each fact of a video or sound file.
inline constexpr FileFact kFacts[] = {
    {"video", "display matrix of the stream or of a picture", "applied",
     "quarter turns and mirrors, exactly: pictures are upright; its scale and shift have no effect"},
    {"video", "display matrix of another angle, sheared or in perspective", "refused",
     "write turned pictures with: ffmpeg -i IN OUT"},
    {"video", "display matrices of stream and picture that differ", "refused",
     "write turned pictures with: ffmpeg -i IN OUT"},
    {"video", "display matrix of zeros", "ignored", "it shows nothing; players show the stored pictures"},
    {"video", "sample aspect ratio", "ignored",
     "pictures are scaled to a square whatever their sides, as they would be after they are stretched to square "
     "pixels"},
    {"video", "time stamps of pictures", "applied",
     "a picture is shown until the next begins; frame rates may vary; time counts from the first picture"},
    {"video", "frame rate", "ignored",
     "except in streams without time stamps or a length, which have one of 25 if none is stated"},
    {"video", "matrix and range of colors", "applied", "BT.601 if the matrix is not stated, as in FFmpeg"},
    {"video", "matrices YCgCo, ICtCp, BT.2020 of constant luminance and derived from primaries", "refused",
     "convert it: ffmpeg -i IN -vf zscale=m=bt709 OUT"},
    {"video", "transfer PQ (HDR10, HDR10+)", "refused", "map it to SDR; the message has a command of ffmpeg"},
    {"video", "Dolby Vision without a compatible base (profile 5)", "refused", "convert it to SDR"},
    {"video", "transfer HLG", "ignored", "values are read as a screen without HDR shows them; a note names the files"},
    {"video", "other transfers, primaries of colors", "ignored",
     "values are read as they are stored, as FFmpeg scales them"},
    {"video", "interlacing", "ignored",
     "the lines of both moments are one picture; a note names the files and a filter of ffmpeg"},
    {"video", "panoramas (spherical), two views (3D)", "ignored",
     "pictures are read flat, as they are stored; a note names the files"},
    {"video", "transparency", "applied",
     "pictures are shown on white, with a note; other pictures keep their values, and so do pictures whose alphas are "
     "all 0"},
    {"video", "EXIF orientation of pictures in MJPEG", "applied", "as a display matrix"},
    {"video", "tag rotate", "ignored", "players turn by the display matrix alone; a note names the files without one"},
    {"video", "further streams of pictures, cover pictures, subtitles, chapters", "ignored",
     "the best stream is read, as FFmpeg chooses it"},
    {"video", "references to other files, playlists", "refused", "one file is read"},
    {"video", "length", "applied", "a part that is missing is an error, except the last 0.25 seconds"},
    {"sound", "channels", "applied", "they are averaged to one"},
    {"sound", "sample rate", "applied", "the sound is resampled"},
    {"sound", "length", "applied", "a part that is missing or cannot be decoded is an error"},
    {"sound", "gain, loudness and other tags", "ignored", "samples are read as they are stored"},
    {"sound", "further streams of sound", "ignored", "the best stream is read, as FFmpeg chooses it"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::media
