#include "files/ffmpeg_display.h"

extern "C" {
#include <libavutil/display.h>
#include <libavutil/dovi_meta.h>
#include <libavutil/pixdesc.h>
#include <libavutil/spherical.h>
#include <libavutil/stereo3d.h>
}

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace plimsoll::media {
namespace {

// a b u; c d v; x y w: pixel (p, q) is shown at (a p + c q + x, b p + d q + y), q downward.
using Matrix = std::array<int32_t, 9>;

// Cosines are rounded: other entries than those of quarter turns may have this part of the others.
constexpr int64_t kRounded = 1000;

std::optional<Matrix> matrix_of(const uint8_t* bytes, size_t size) {
  if (bytes == nullptr || size < sizeof(Matrix)) return std::nullopt;
  Matrix matrix;
  std::memcpy(matrix.data(), bytes, sizeof matrix);
  // Some programs write no numbers at all; players show such pictures as they are stored.
  if (std::all_of(matrix.begin(), matrix.begin() + 6, [](int32_t entry) { return entry == 0; })) return std::nullopt;
  return matrix;
}

std::optional<Matrix> matrix_of(const AVStream& stream) {
  size_t size = 0;
  const uint8_t* bytes = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
  return matrix_of(bytes, size);
}

std::optional<Matrix> matrix_of(const AVFrame& frame) {
  const AVFrameSideData* data = av_frame_get_side_data(&frame, AV_FRAME_DATA_DISPLAYMATRIX);
  return data == nullptr ? std::nullopt : matrix_of(data->data, data->size);
}

// A picture of MJPEG may have EXIF data; 0: none.
Orientation exif_orientation_of(const AVFrame& frame) {
  const AVDictionaryEntry* entry = av_dict_get(frame.metadata, "Orientation", nullptr, 0);
  const long number = entry == nullptr ? 0 : std::strtol(entry->value, nullptr, 10);
  return number >= 1 && number <= 8 ? static_cast<Orientation>(number) : 0;
}

Orientation orientation_by(const Matrix& matrix) {
  const int64_t a = matrix[0], b = matrix[1], c = matrix[3], d = matrix[4];
  const int64_t along = std::min(std::abs(a), std::abs(d)), across = std::min(std::abs(b), std::abs(c));
  const bool flat = matrix[2] == 0 && matrix[5] == 0 && matrix[8] >= 0;
  if (flat && along > 0 && kRounded * std::max(std::abs(b), std::abs(c)) <= along)
    return a > 0 ? d > 0 ? 1 : 4 : d > 0 ? 2 : 3;
  if (flat && across > 0 && kRounded * std::max(std::abs(a), std::abs(d)) <= across)
    return b > 0 ? c > 0 ? 5 : 6 : c > 0 ? 8 : 7;
  char text[96];
  const double angle = -av_display_rotation_get(matrix.data());
  if (flat && std::isfinite(angle))
    std::snprintf(text, sizeof text, "turns its pictures by %.2f degrees clockwise", angle);
  else
    std::snprintf(text, sizeof text, "distorts its pictures");
  throw MediaError("has a display matrix that " + std::string(text) +
                   "; allowed: quarter turns and mirrors; write turned pictures with: ffmpeg -i IN OUT");
}

// Returns the number in an enumeration: a damaged stream may have one that the enumeration does not have.
template <typename Enumeration>
int number_of(const Enumeration& value) {
  int number = 0;
  static_assert(sizeof number == sizeof value);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

}  // namespace

Orientation orientation_of(const AVStream& stream, const AVFrame& frame, std::optional<Orientation> before) {
  const std::optional<Matrix> of_stream = matrix_of(stream), of_frame = matrix_of(frame);
  const Orientation exif = exif_orientation_of(frame);
  if (!of_frame && exif == 0 && before) return *before;
  if (!of_stream && !of_frame && exif == 0) return kUpright;
  const Orientation orientation = of_frame ? orientation_by(*of_frame) : exif ? exif : orientation_by(*of_stream);
  if (of_stream && (of_frame || exif != 0) && orientation != orientation_by(*of_stream))
    throw MediaError("has two display matrices that differ: the container's shows orientation " +
                     std::to_string(orientation_by(*of_stream)) + " (EXIF), and the pictures' " +
                     std::to_string(orientation) + "; write turned pictures with: ffmpeg -i IN OUT");
  return orientation;
}

void check_colors(const AVStream& stream, const AVFrame& frame) {
  size_t size = 0;
  const uint8_t* bytes = av_stream_get_side_data(&stream, AV_PKT_DATA_DOVI_CONF, &size);
  if (bytes != nullptr && size >= sizeof(AVDOVIDecoderConfigurationRecord)) {
    AVDOVIDecoderConfigurationRecord dolby;
    std::memcpy(&dolby, bytes, sizeof dolby);
    if (dolby.dv_bl_signal_compatibility_id == 0)
      throw MediaError("has Dolby Vision pictures of profile " + std::to_string(dolby.dv_profile) +
                       ", whose values are no colors without its metadata; convert it to SDR");
  }
  if (number_of(frame.color_trc) == AVCOL_TRC_SMPTE2084)
    throw MediaError(
        "has HDR pictures (PQ, SMPTE ST 2084), whose values are not the brightness that people see; convert it to SDR: "
        "ffmpeg -i IN -vf zscale=t=linear:npl=100,format=gbrpf32le,zscale=p=bt709,tonemap=hable,"
        "zscale=t=bt709:m=bt709:r=tv,format=yuv420p OUT");
  const int space = number_of(frame.colorspace);  // libswscale takes numbers without a name as BT.601
  const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
  const bool is_rgb = format != nullptr && (format->flags & AV_PIX_FMT_FLAG_RGB) != 0;
  if (!is_rgb && (space == AVCOL_SPC_YCGCO || (space >= AVCOL_SPC_BT2020_CL && space <= AVCOL_SPC_ICTCP)))
    throw MediaError("has colors in the matrix " + std::string(av_color_space_name(static_cast<AVColorSpace>(space))) +
                     ", which is not computed; convert it: ffmpeg -i IN -vf zscale=m=bt709 OUT");
}

bool has_alpha(const AVFrame& frame) {
  const AVPixFmtDescriptor* format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
  return format != nullptr && (format->flags & AV_PIX_FMT_FLAG_ALPHA) != 0;
}

std::vector<std::string> notes_of(const AVStream& stream, const AVFrame& frame) {
  std::vector<std::string> notes;
  const int order = number_of(stream.codecpar->field_order);
  if (frame.interlaced_frame != 0 || (order != AV_FIELD_UNKNOWN && order != AV_FIELD_PROGRESSIVE))
    notes.emplace_back(
        "the video is interlaced: a picture has the lines of two moments, and they are read as one picture; "
        "ffmpeg -i IN -vf bwdif OUT makes one of each moment");
  if (number_of(frame.color_trc) == AVCOL_TRC_ARIB_STD_B67)
    notes.emplace_back("the video is HDR (HLG): its values are read as a screen without HDR shows them");
  if (av_stream_get_side_data(&stream, AV_PKT_DATA_SPHERICAL, nullptr) != nullptr)
    notes.emplace_back("the video is a panorama (spherical): its pictures are read flat, as they are stored");
  size_t size = 0;
  const uint8_t* views = av_stream_get_side_data(&stream, AV_PKT_DATA_STEREO3D, &size);
  AVStereo3D stereo = {};
  if (views != nullptr) std::memcpy(&stereo, views, std::min(size, sizeof stereo));
  if (number_of(stereo.type) != AV_STEREO3D_2D)
    notes.emplace_back("the video has two views (3D): both are read as one picture, as they are stored");
  const AVDictionaryEntry* tag = av_dict_get(stream.metadata, "rotate", nullptr, 0);
  if (tag != nullptr && std::strtol(tag->value, nullptr, 10) % 360 != 0 && !matrix_of(stream) && !matrix_of(frame))
    notes.push_back("the video has a tag that turns it by " + std::to_string(std::strtol(tag->value, nullptr, 10)) +
                    " degrees, and no display matrix: its pictures are read as they are stored, as in players");
  return notes;
}

SeenSides seen_sides(AVFormatContext& format, AVStream& stream, AVFrame& frame, Orientation orientation) {
  SeenSides sides{frame.width, frame.height};
  const AVRational pixel = av_guess_sample_aspect_ratio(&format, &stream, &frame);
  if (pixel.num > 0 && pixel.den > 0)
    sides.width = std::max<int64_t>(1, std::llround(static_cast<double>(frame.width) * av_q2d(pixel)));
  if (swaps_sides(orientation)) std::swap(sides.width, sides.height);
  return sides;
}

namespace {

constexpr int kExact = SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT;

Frame make_picture(AVPixelFormat format, int width, int height) {
  Frame picture = make_frame();
  picture->format = format;
  picture->width = width;
  picture->height = height;
  // Rows are allocated separately, with padding at their ends: swscale's vector code writes past them.
  if (av_frame_get_buffer(picture.get(), 64) < 0) throw std::bad_alloc();
  return picture;
}

}  // namespace

void Conversion::convert(const AVFrame& frame, int flags, AVFrame& to) {
  const auto format = static_cast<AVPixelFormat>(frame.format);
  context_.reset(sws_getCachedContext(context_.release(), frame.width, frame.height, format, to.width, to.height,
                                      static_cast<AVPixelFormat>(to.format), flags, nullptr, nullptr, nullptr));
  if (!context_) throw MediaError("has pictures of a format that cannot be made RGB");
  const bool full_range = frame.color_range == AVCOL_RANGE_JPEG || format == AV_PIX_FMT_YUVJ420P ||
                          format == AV_PIX_FMT_YUVJ422P || format == AV_PIX_FMT_YUVJ444P;
  // A damaged stream may have a value here that the enumeration does not have; libswscale accepts any number.
  int color_space = 0;
  static_assert(sizeof color_space == sizeof frame.colorspace);
  std::memcpy(&color_space, &frame.colorspace, sizeof color_space);
  sws_setColorspaceDetails(context_.get(), sws_getCoefficients(color_space), full_range,
                           sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  if (sws_scale(context_.get(), frame.data, frame.linesize, 0, frame.height, to.data, to.linesize) <= 0)
    throw MediaError("has a picture that cannot be scaled");
}

bool WhitePage::put(const AVFrame& frame) {
  page_ = make_picture(AV_PIX_FMT_RGBA, frame.width, frame.height);
  conversion_.convert(frame, SWS_BICUBIC | kExact, *page_);
  bool transparent = false, visible = false;
  for (int y = 0; y < frame.height; ++y) {
    uint8_t* pixel = page_->data[0] + int64_t{y} * page_->linesize[0];
    for (int x = 0; x < frame.width; ++x, pixel += 4) {
      const int alpha = pixel[3];
      transparent |= alpha != 255;
      visible |= alpha != 0;
      for (int c = 0; c < 3; ++c) pixel[c] = static_cast<uint8_t>((pixel[c] * alpha + 255 * (255 - alpha) + 127) / 255);
      pixel[3] = 255;
    }
  }
  return transparent && visible;
}

void Scaler::scale(const AVFrame& frame, Orientation orientation, uint8_t* out) {
  const int width = swaps_sides(orientation) ? height_ : width_, height = swaps_sides(orientation) ? width_ : height_;
  if (!picture_ || picture_->width != width || picture_->height != height)
    picture_ = make_picture(AV_PIX_FMT_RGB24, width, height);
  const bool smaller = int64_t{width} * height < int64_t{frame.width} * frame.height;
  conversion_.convert(has_alpha(frame) && page_.put(frame) ? page_.page() : frame,
                      (smaller ? SWS_AREA : SWS_BICUBIC) | kExact, *picture_);
  if (orientation == kUpright) {
    const size_t row = static_cast<size_t>(width) * 3;
    for (int y = 0; y < height; ++y)
      std::memcpy(out + static_cast<size_t>(y) * row, picture_->data[0] + int64_t{y} * picture_->linesize[0], row);
    return;
  }
  for (int y = 0; y < height_; ++y)
    for (int x = 0; x < width_; ++x, out += 3) {
      const int64_t from = stored_pixel(orientation, x, y, width, height);
      std::memcpy(out, picture_->data[0] + from / width * picture_->linesize[0] + from % width * 3, 3);
    }
}

}  // namespace plimsoll::media
