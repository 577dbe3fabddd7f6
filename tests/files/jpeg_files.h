// Declares JPEG files for tests, made by FFmpeg's own encoder.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
}

#include <stdexcept>
#include <string>

namespace plimsoll {

/// Returns a picture of one gray level, or with its right half of another: 0 to 255. Colors are stored at half the
/// size.
inline std::string jpeg(int width, int height, int left, int right) {
  const auto need = [](bool good) {
    if (!good) throw std::runtime_error("the test's picture cannot be encoded");
  };
  AVCodecContext* codec = avcodec_alloc_context3(avcodec_find_encoder(AV_CODEC_ID_MJPEG));
  codec->width = width;
  codec->height = height;
  codec->time_base = {1, 1};
  codec->pix_fmt = AV_PIX_FMT_YUVJ420P;
  codec->color_range = AVCOL_RANGE_JPEG;
  codec->flags |= AV_CODEC_FLAG_QSCALE;
  codec->global_quality = 2 * FF_QP2LAMBDA;
  codec->thread_count = 1;
  need(avcodec_open2(codec, nullptr, nullptr) >= 0);
  AVFrame* frame = av_frame_alloc();
  frame->format = codec->pix_fmt;
  frame->width = width;
  frame->height = height;
  frame->quality = codec->global_quality;
  need(av_frame_get_buffer(frame, 0) >= 0);
  for (int plane = 0; plane < 3; ++plane)
    for (int y = 0; y < (plane == 0 ? height : (height + 1) / 2); ++y)
      for (int x = 0; x < (plane == 0 ? width : (width + 1) / 2); ++x)
        frame->data[plane][y * frame->linesize[plane] + x] = static_cast<uint8_t>(plane > 0       ? 128
                                                                                  : x < width / 2 ? left
                                                                                                  : right);
  AVPacket* packet = av_packet_alloc();
  need(avcodec_send_frame(codec, frame) >= 0 && avcodec_receive_packet(codec, packet) >= 0);
  std::string bytes(reinterpret_cast<const char*>(packet->data), static_cast<size_t>(packet->size));
  av_packet_free(&packet);
  av_frame_free(&frame);
  avcodec_free_context(&codec);
  return bytes;
}

}  // namespace plimsoll
