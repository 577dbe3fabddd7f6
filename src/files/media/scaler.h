// Declares the scaler of a video's pictures.
#pragma once

extern "C" {
#include <libswscale/swscale.h>
}

#include <cstdint>

#include "files/media/media_file.h"
#include "files/pictures/orientation.h"

namespace plimsoll::media {

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

}  // namespace plimsoll::media
