// Encodes small videos for tests, also such that are shown turned, mirrored or scaled.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
}

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace plimsoll {

inline void need(bool good) {
  if (!good) throw std::runtime_error("the test's file cannot be encoded");
}

/// Writes what the encoder of stream 0 makes of `frame`; nullptr: the frames that it still holds.
inline void encode_frame(AVFormatContext* format, AVCodecContext* codec, AVFrame* frame, AVPacket* packet) {
  need(avcodec_send_frame(codec, frame) >= 0);
  while (avcodec_receive_packet(codec, packet) >= 0) {
    av_packet_rescale_ts(packet, codec->time_base, format->streams[0]->time_base);
    packet->stream_index = 0;
    need(av_interleaved_write_frame(format, packet) >= 0);
  }
}

inline void finish_encoding(AVFormatContext* format, AVCodecContext* codec, AVFrame* frame, AVPacket* packet) {
  need(av_write_trailer(format) >= 0);
  av_frame_free(&frame);
  av_packet_free(&packet);
  avcodec_free_context(&codec);
  avio_closep(&format->pb);
  avformat_free_context(format);
}

/// Writes MPEG-4 in the container of the file name's ending, 64 x 48, 10 pictures a second, with the gray levels of
/// `brightness`. There is a key frame every 12 pictures, and two pictures that refer to later ones between others. If
/// the seconds of sound are not 0, it has this much sound, uncompressed at 8000 samples a second.
inline void encode_video(const std::filesystem::path& file, const std::vector<int>& brightness, double sound = 0) {
  AVFormatContext* format = nullptr;
  need(avformat_alloc_output_context2(&format, nullptr, nullptr, file.c_str()) >= 0);
  const AVCodec* encoder = avcodec_find_encoder(AV_CODEC_ID_MPEG4);
  AVCodecContext* codec = avcodec_alloc_context3(encoder);
  codec->width = 64;
  codec->height = 48;
  codec->time_base = {1, 10};
  codec->framerate = {10, 1};
  codec->gop_size = 12;
  codec->max_b_frames = 2;
  codec->pix_fmt = AV_PIX_FMT_YUV420P;
  codec->flags |= AV_CODEC_FLAG_QSCALE;
  codec->global_quality = 2 * FF_QP2LAMBDA;
  codec->thread_count = 1;
  if (format->oformat->flags & AVFMT_GLOBALHEADER) codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  need(avcodec_open2(codec, encoder, nullptr) >= 0);
  AVStream* stream = avformat_new_stream(format, nullptr);
  stream->time_base = codec->time_base;
  stream->avg_frame_rate = codec->framerate;
  need(avcodec_parameters_from_context(stream->codecpar, codec) >= 0);
  if (sound > 0) {
    AVCodecParameters* parameters = avformat_new_stream(format, nullptr)->codecpar;
    parameters->codec_type = AVMEDIA_TYPE_AUDIO;
    parameters->codec_id = AV_CODEC_ID_PCM_S16LE;
    parameters->format = AV_SAMPLE_FMT_S16;
    parameters->sample_rate = 8000;
    parameters->block_align = 2;
    parameters->bits_per_coded_sample = 16;
    av_channel_layout_default(&parameters->ch_layout, 1);
  }
  need(avio_open(&format->pb, file.c_str(), AVIO_FLAG_WRITE) >= 0);
  need(avformat_write_header(format, nullptr) >= 0);
  AVPacket* packet = av_packet_alloc();
  for (int i = 0; i < static_cast<int>(sound * 10 + 0.5); ++i) {  // a tenth of a second each
    need(av_new_packet(packet, 1600) >= 0);
    std::fill_n(packet->data, 1600, static_cast<uint8_t>(i));
    packet->stream_index = 1;
    packet->pts = packet->dts = i * 800;
    packet->duration = 800;
    av_packet_rescale_ts(packet, {1, 8000}, format->streams[1]->time_base);
    need(av_interleaved_write_frame(format, packet) >= 0);
  }
  AVFrame* frame = av_frame_alloc();
  frame->format = codec->pix_fmt;
  frame->width = codec->width;
  frame->height = codec->height;
  need(av_frame_get_buffer(frame, 0) >= 0);
  for (size_t i = 0; i <= brightness.size(); ++i) {  // one more: the pictures that the encoder still holds
    const bool last = i == brightness.size();
    if (!last) {
      need(av_frame_make_writable(frame) >= 0);
      for (int plane = 0; plane < 3; ++plane)
        for (int y = 0; y < (plane == 0 ? 48 : 24); ++y)
          std::fill_n(frame->data[plane] + y * frame->linesize[plane], plane == 0 ? 64 : 32,
                      static_cast<uint8_t>(plane == 0 ? 16 + (brightness[i] * 219 + 127) / 255 : 128));
      frame->pts = static_cast<int64_t>(i);
    }
    encode_frame(format, codec, last ? nullptr : frame, packet);
  }
  finish_encoding(format, codec, frame, packet);
}

/// Writes AAC in the container of the file name's ending: a tone at 16000 samples a second.
inline void encode_sound(const std::filesystem::path& file, double seconds) {
  AVFormatContext* format = nullptr;
  need(avformat_alloc_output_context2(&format, nullptr, nullptr, file.c_str()) >= 0);
  const AVCodec* encoder = avcodec_find_encoder(AV_CODEC_ID_AAC);
  AVCodecContext* codec = avcodec_alloc_context3(encoder);
  codec->sample_fmt = AV_SAMPLE_FMT_FLTP;
  codec->sample_rate = 16000;
  codec->time_base = {1, 16000};
  codec->bit_rate = 64000;
  av_channel_layout_default(&codec->ch_layout, 1);
  if (format->oformat->flags & AVFMT_GLOBALHEADER) codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  need(avcodec_open2(codec, encoder, nullptr) >= 0);
  AVStream* stream = avformat_new_stream(format, nullptr);
  stream->time_base = codec->time_base;
  need(avcodec_parameters_from_context(stream->codecpar, codec) >= 0);
  need(avio_open(&format->pb, file.c_str(), AVIO_FLAG_WRITE) >= 0);
  AVDictionary* options = nullptr;
  av_dict_set(&options, "movflags", "faststart", 0);  // the file's description comes first, because it may be truncated
  need(avformat_write_header(format, &options) >= 0);
  av_dict_free(&options);
  AVPacket* packet = av_packet_alloc();
  AVFrame* frame = av_frame_alloc();
  frame->format = codec->sample_fmt;
  frame->nb_samples = codec->frame_size;
  need(av_channel_layout_copy(&frame->ch_layout, &codec->ch_layout) >= 0);
  need(av_frame_get_buffer(frame, 0) >= 0);
  const auto frames = static_cast<int64_t>(seconds * 16000 / codec->frame_size);
  for (int64_t i = 0; i <= frames; ++i) {
    const bool last = i == frames;
    if (!last) {
      need(av_frame_make_writable(frame) >= 0);
      for (int k = 0; k < frame->nb_samples; ++k)
        reinterpret_cast<float*>(frame->data[0])[k] =
            0.5f * std::sin(0.1f * static_cast<float>(k % 1000) + static_cast<float>(i * k % 97));
      frame->pts = i * codec->frame_size;
    }
    encode_frame(format, codec, last ? nullptr : frame, packet);
  }
  finish_encoding(format, codec, frame, packet);
}

/// a b u; c d v; x y w, as in an MP4 (files/ffmpeg_display.cpp).
using DisplayMatrix = std::array<int32_t, 9>;

/// Returns the matrix that shows stored pixels in an orientation (EXIF number).
inline DisplayMatrix matrix_of_orientation(int orientation) {
  constexpr int32_t one = 1 << 16;
  constexpr std::array<std::array<int32_t, 4>, 8> abcd = {{{1, 0, 0, 1},
                                                           {-1, 0, 0, 1},
                                                           {-1, 0, 0, -1},
                                                           {1, 0, 0, -1},
                                                           {0, 1, 1, 0},
                                                           {0, 1, -1, 0},
                                                           {0, -1, -1, 0},
                                                           {0, -1, 1, 0}}};
  const auto& [a, b, c, d] = abcd[static_cast<size_t>(orientation - 1)];
  return {a * one, b * one, 0, c * one, d * one, 0, 0, 0, 1 << 30};
}

struct ShownVideo {
  int width = 6, height = 4, frames = 10;  ///< 10 frames a second
  AVPixelFormat format = AV_PIX_FMT_RGB24;
  std::optional<DisplayMatrix> matrix = std::nullopt;
  AVRational pixel = {0, 1};  ///< width of a pixel by its height
  AVColorTransferCharacteristic transfer = AVCOL_TRC_UNSPECIFIED;
  AVColorSpace space = AVCOL_SPC_UNSPECIFIED;
  AVCodecID codec = AV_CODEC_ID_RAWVIDEO;
  std::string extradata = "";
  const char* rotate = nullptr;  ///< tag of the stream
};

/// Returns a picture of H.264, 32 x 16, red with a blue rectangle in the upper left quarter (made by libx264), as a
/// stream of bytes. With `rotation` it has a message of its display orientation: counterclockwise, 2^16 is a full turn.
inline std::string h264_picture(std::optional<uint16_t> rotation, std::string& headers) {
  const auto unit = [](std::initializer_list<int> bytes) {
    std::string text("\0\0\0\1", 4);
    for (const int byte : bytes) text += static_cast<char>(byte);
    return text;
  };
  headers = unit({0x67, 0x64, 0x00, 0x0a, 0xac, 0x72, 0x84, 0x4b, 0xb0, 0x11, 0x00, 0x00, 0x03,
                  0x00, 0x01, 0x00, 0x00, 0x03, 0x00, 0x10, 0x0f, 0x12, 0x25, 0x84, 0x60}) +
            unit({0x68, 0xe8, 0x43, 0x8f, 0x2c, 0x8b});
  const std::string picture = unit({0x65, 0x88, 0x81, 0x00, 0x06, 0x7f, 0xfe, 0x76, 0x5c, 0x45, 0xf0, 0xd0,
                                    0x0e, 0x70, 0x1b, 0x85, 0xc5, 0x80, 0xc9, 0xf2, 0x24, 0x61, 0x48, 0x13,
                                    0xb7, 0x1b, 0xc1, 0xd7, 0x7c, 0x3c, 0xe7, 0x60, 0x1f, 0x10, 0x02, 0x41});
  if (!rotation) return headers + picture;
  // Payload 47: three flags, the rotation in 16 bits, then a period and an extension of 0.
  return headers + unit({0x06, 47, 3, *rotation >> 11, *rotation >> 3 & 0xff, (*rotation & 7) << 5 | 0x09, 0x80}) +
         picture;
}

/// Writes a video in the container of the file name's ending. Every frame has the bytes of `picture`.
inline void write_shown_video(const std::filesystem::path& file, const std::string& picture, const ShownVideo& video) {
  AVFormatContext* format = nullptr;
  need(avformat_alloc_output_context2(&format, nullptr, nullptr, file.c_str()) >= 0);
  AVStream* stream = avformat_new_stream(format, nullptr);
  AVCodecParameters* parameters = stream->codecpar;
  parameters->codec_type = AVMEDIA_TYPE_VIDEO;
  parameters->codec_id = video.codec;
  if (video.codec == AV_CODEC_ID_RAWVIDEO) parameters->codec_tag = avcodec_pix_fmt_to_codec_tag(video.format);
  parameters->format = video.format;
  parameters->width = video.width;
  parameters->height = video.height;
  parameters->color_trc = video.transfer;
  parameters->color_space = video.space;
  parameters->color_primaries = video.transfer == AVCOL_TRC_UNSPECIFIED ? AVCOL_PRI_UNSPECIFIED : AVCOL_PRI_BT2020;
  stream->sample_aspect_ratio = parameters->sample_aspect_ratio = video.pixel;
  if (!video.extradata.empty()) {
    parameters->extradata_size = static_cast<int>(video.extradata.size());
    parameters->extradata = static_cast<uint8_t*>(av_mallocz(video.extradata.size() + AV_INPUT_BUFFER_PADDING_SIZE));
    std::memcpy(parameters->extradata, video.extradata.data(), video.extradata.size());
  }
  if (video.rotate) av_dict_set(&stream->metadata, "rotate", video.rotate, 0);
  stream->time_base = {1, 10};
  stream->avg_frame_rate = {10, 1};
  if (video.matrix)
    std::memcpy(av_stream_new_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, sizeof *video.matrix), video.matrix->data(),
                sizeof *video.matrix);
  need(avio_open(&format->pb, file.c_str(), AVIO_FLAG_WRITE) >= 0);
  need(avformat_write_header(format, nullptr) >= 0);
  AVPacket* packet = av_packet_alloc();
  for (int i = 0; i < video.frames; ++i) {
    need(av_new_packet(packet, static_cast<int>(picture.size())) >= 0);
    std::memcpy(packet->data, picture.data(), picture.size());
    packet->pts = packet->dts = i;
    packet->duration = 1;
    packet->flags |= AV_PKT_FLAG_KEY;
    av_packet_rescale_ts(packet, {1, 10}, stream->time_base);
    need(av_interleaved_write_frame(format, packet) >= 0);
  }
  need(av_write_trailer(format) >= 0);
  av_packet_free(&packet);
  avio_closep(&format->pb);
  avformat_free_context(format);
}

}  // namespace plimsoll
