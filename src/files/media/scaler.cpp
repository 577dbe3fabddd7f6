#include "files/media/scaler.h"

#include <cstring>
#include <new>

#include "files/media/display.h"

namespace plimsoll::media {
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
