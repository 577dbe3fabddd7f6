#include "files/media/picture.h"

extern "C" {
#include <libavutil/imgutils.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "files/media/media_file.h"

namespace plimsoll::media {
namespace {

Frame decoded(const std::vector<uint8_t>& bytes, AVCodecID id) {
  const AVCodec* decoder = avcodec_find_decoder(id);
  if (decoder == nullptr) throw MediaError("is of a format that this FFmpeg has no decoder for");
  const std::unique_ptr<AVCodecContext, FreeCodec> codec(avcodec_alloc_context3(decoder));
  const std::unique_ptr<AVPacket, FreePacket> packet(av_packet_alloc());
  if (!codec || !packet || av_new_packet(packet.get(), static_cast<int>(bytes.size())) < 0) throw std::bad_alloc();
  std::memcpy(packet->data, bytes.data(), bytes.size());
  codec->thread_count = 1;  // several threads already read files
  codec->max_pixels = kMaxPicturePixels;
  // Many JPEG files have an invalid segment next to a valid picture.
  if (id == AV_CODEC_ID_PNG) codec->err_recognition = AV_EF_CRCCHECK | AV_EF_EXPLODE;
  int error = avcodec_open2(codec.get(), decoder, nullptr);
  if (error < 0) fail("cannot be decoded", error);
  Frame frame = make_frame();
  if (error = avcodec_send_packet(codec.get(), packet.get()); error < 0) fail("cannot be decoded", error);
  avcodec_send_packet(codec.get(), nullptr);
  if (error = avcodec_receive_frame(codec.get(), frame.get()); error < 0) fail("cannot be decoded", error);
  return frame;
}

/// Copies values of `bits` bits: the first `kept` of the `there` values of each pixel. A further one is its alpha,
/// which is kept if a pixel is transparent.
void take(const AVFrame& frame, int bits, int there, int kept, Picture& picture) {
  picture.channels = kept;
  picture.max_value = (1 << bits) - 1;
  const auto pixels = static_cast<size_t>(picture.width * picture.height);
  picture.numbers.resize(pixels * static_cast<size_t>(kept));
  if (there > kept) picture.alpha.resize(pixels);
  uint16_t *to = picture.numbers.data(), *alpha = picture.alpha.data();
  bool transparent = false;
  for (int y = 0; y < frame.height; ++y) {
    const uint8_t* row = frame.data[0] + int64_t{y} * frame.linesize[0];
    const auto value = [&](int at) {
      return bits == 1    ? static_cast<uint16_t>(row[at / 8] >> (7 - at % 8) & 1)
             : bits == 16 ? static_cast<uint16_t>(row[2 * at] << 8 | row[2 * at + 1])
                          : row[at];
    };
    for (int x = 0; x < frame.width; ++x) {
      for (int c = 0; c < kept; ++c) *to++ = value(x * there + c);
      if (there > kept) transparent |= (*alpha++ = value(x * there + kept)) != picture.max_value;
    }
  }
  if (!transparent) picture.alpha = {};
}

void take_palette(const AVFrame& frame, Picture& picture) {
  take(frame, 8, 1, 1, picture);
  picture.palette.resize(size_t{256} * 3);
  std::array<uint8_t, 256> alpha = {};
  for (size_t i = 0; i < 256; ++i) {
    uint32_t color = 0;  // in this machine's byte order, alpha first
    std::memcpy(&color, frame.data[1] + 4 * i, sizeof color);
    for (size_t c = 0; c < 3; ++c) picture.palette[3 * i + c] = static_cast<uint8_t>(color >> (16 - 8 * c));
    alpha[i] = static_cast<uint8_t>(color >> 24);
  }
  if (std::ranges::all_of(picture.numbers, [&](uint16_t index) { return alpha[index] == 255; })) return;
  for (const uint16_t index : picture.numbers) picture.alpha.push_back(alpha[index]);
}

/// Converts JPEG's format: luma and chroma of any subsampling.
void convert(const AVFrame& frame, Picture& picture) {
  const auto format = static_cast<AVPixelFormat>(frame.format);
  const std::unique_ptr<SwsContext, void (*)(SwsContext*)> context(
      sws_getContext(frame.width, frame.height, format, frame.width, frame.height, AV_PIX_FMT_RGB24,
                     SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, nullptr, nullptr, nullptr),
      sws_freeContext);
  if (!context) throw MediaError("has colors that cannot be made red, green and blue");
  const bool full_range = frame.color_range != AVCOL_RANGE_MPEG;
  sws_setColorspaceDetails(context.get(), sws_getCoefficients(frame.colorspace), full_range,
                           sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  const Frame colors = make_frame();
  colors->format = AV_PIX_FMT_RGB24;
  colors->width = frame.width;
  colors->height = frame.height;
  if (av_frame_get_buffer(colors.get(), 64) < 0) throw std::bad_alloc();
  if (sws_scale(context.get(), frame.data, frame.linesize, 0, frame.height, colors->data, colors->linesize) <= 0)
    throw MediaError("cannot be made red, green and blue");
  take(*colors, 8, 3, 3, picture);
}

}  // namespace

Picture picture(const std::vector<uint8_t>& bytes, bool png) {
  const Frame frame = decoded(bytes, png ? AV_CODEC_ID_PNG : AV_CODEC_ID_MJPEG);
  Picture picture;
  picture.width = frame->width;
  picture.height = frame->height;
  switch (frame->format) {
    case AV_PIX_FMT_MONOBLACK:
      take(*frame, 1, 1, 1, picture);
      break;
    case AV_PIX_FMT_GRAY8:
      take(*frame, 8, 1, 1, picture);
      break;
    case AV_PIX_FMT_YA8:
      take(*frame, 8, 2, 1, picture);
      break;
    case AV_PIX_FMT_RGB24:
      take(*frame, 8, 3, 3, picture);
      break;
    case AV_PIX_FMT_RGBA:
      take(*frame, 8, 4, 3, picture);
      break;
    case AV_PIX_FMT_GRAY16BE:
      take(*frame, 16, 1, 1, picture);
      break;
    case AV_PIX_FMT_YA16BE:
      take(*frame, 16, 2, 1, picture);
      break;
    case AV_PIX_FMT_RGB48BE:
      take(*frame, 16, 3, 3, picture);
      break;
    case AV_PIX_FMT_RGBA64BE:
      take(*frame, 16, 4, 3, picture);
      break;
    case AV_PIX_FMT_PAL8:
      take_palette(*frame, picture);
      break;
    default:
      convert(*frame, picture);
  }
  return picture;
}

}  // namespace plimsoll::media
