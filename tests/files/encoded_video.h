// Declares a compressed video for tests, made by FFmpeg's own encoder: key frames far apart, pictures that refer to
// later ones.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
}

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>
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

}  // namespace plimsoll
