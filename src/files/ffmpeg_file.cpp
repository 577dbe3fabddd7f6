#include "files/ffmpeg_file.h"

extern "C" {
#include <libavutil/log.h>
#include <libavutil/mem.h>
}

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <vector>

namespace plimsoll::media {
namespace {

// Decoders run on the calling thread, so that their last message belongs to this file.
thread_local std::string last_message;

void keep_message(void*, int level, const char* format, va_list values) {
  if (level > AV_LOG_ERROR) return;
  char line[512];
  std::vsnprintf(line, sizeof line, format, values);
  last_message = line;
  while (!last_message.empty() && (last_message.back() == '\n' || last_message.back() == '.')) last_message.pop_back();
}

// Formats that are read. Playlists (concat, hls, dash, imf, ...) are not: they name other files or addresses, and some
// open them without calling io_open.
constexpr const char* kFormats =
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,asf,ogg,mxf,dv,"  // containers
    "gif,apng,yuv4mpegpipe,ivf,h264,hevc,m4v,"                                             // pictures only
    "wav,w64,aiff,au,caf,mp3,flac,aac,ac3,eac3";                                           // sound only

// Refuses a reference in a file of these formats: only the named file is opened.
int refuse_to_open(AVFormatContext*, AVIOContext** io, const char*, int, AVDictionary**) {
  *io = nullptr;
  return AVERROR(EPERM);
}

// Decoders that are used: each is common in the formats above, and has been fuzzed for years. FFmpeg has hundreds more,
// of games and old programs, that a hostile file could choose.
constexpr const char* kCodecs =
    "h264,hevc,mpeg4,mpeg1video,mpeg2video,mpegvideo,h263,flv,vp8,vp9,libdav1d,av1,theora,vc1,wmv1,wmv2,wmv3,"
    "msmpeg4v2,msmpeg4,mjpeg,dvvideo,prores,dnxhd,ffv1,huffyuv,ffvhuff,cinepak,rawvideo,gif,apng,png,"
    "aac,aac_fixed,ac3,eac3,mp3,mp3float,mp2,mp2float,flac,vorbis,libvorbis,opus,libopus,alac,wmav1,wmav2,"
    "adpcm_ms,adpcm_ima_wav,adpcm_ima_qt,pcm_u8,pcm_s8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,"
    "pcm_dvd,pcm_bluray,pcm_f32le,pcm_f32be,pcm_f64le,pcm_f64be,pcm_alaw,pcm_mulaw";

// 8K video (7680 x 4320) has fewer pixels. Decoders allocate several times the size that a header states.
constexpr int64_t kMaxPixels = int64_t{1} << 25;

// Largest allocation of FFmpeg, in bytes: the largest picture that is read (files/picture.h) takes 512 MiB.
constexpr size_t kMaxAllocation = size_t{640} << 20;

// Bytes, and microseconds of the file, that are read to identify the streams. Both are FFmpeg's own values.
constexpr int64_t kProbeBytes = 5'000'000, kProbeMicroseconds = 5'000'000;
// Packets may be empty, and then do not count as bytes.
constexpr int64_t kMaxProbedPackets = 100'000;

// A packet of a valid file takes at least one byte of it; damaged indexes lead to the same bytes repeatedly.
constexpr int64_t kPacketsFloor = 4096;

// Pixels or samples that may be decoded from one file, and more for each of its bytes. A recording of a still screen
// has about 10^4 pixels for each byte; silence in FLAC has 4681 samples for each byte.
constexpr int64_t kDecodedFloor = int64_t{1} << 31, kDecodedFactor = int64_t{1} << 15;

std::string listed_codecs() {
  std::string text;
  for (const char* c = kCodecs; *c != 0; ++c) text += *c == ',' ? ", " : std::string(1, *c);
  return text;
}

bool is_listed(const char* name) {
  return ("," + std::string(kCodecs) + ",").find("," + std::string(name) + ",") != std::string::npos;
}

}  // namespace

void fail(const std::string& what, int error) {
  char reason[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(error, reason, sizeof reason);
  std::string message = what + ": " + reason;
  if (!last_message.empty()) message += " (" + last_message + ")";
  throw MediaError(message);
}

std::string in_seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

Frame make_frame() {
  Frame frame(av_frame_alloc());
  if (!frame) throw std::bad_alloc();
  return frame;
}

void silence() {
  static std::once_flag once;
  std::call_once(once, [] {
    av_log_set_callback(keep_message);
    av_max_alloc(kMaxAllocation);
  });
  last_message.clear();
}

void CloseFile::operator()(AVFormatContext* format) const {
  AVIOContext* io = format->pb;  // ours (AVFMT_FLAG_CUSTOM_IO): closing the format does not close it
  avformat_close_input(&format);
  avio_closep(&io);
}

MediaFile::MediaFile(const std::string& path, AVMediaType type)
    : packet_(av_packet_alloc()), probed_(std::make_unique<int64_t>(0)) {
  AVFormatContext* format = avformat_alloc_context();
  if (format == nullptr || packet_ == nullptr) throw std::bad_alloc();
  AVDictionary* only_files = nullptr;
  av_dict_set(&only_files, "protocol_whitelist", "file", 0);
  // "file:", so that a name is not read as a protocol.
  int error = avio_open2(&format->pb, ("file:" + path).c_str(), AVIO_FLAG_READ, nullptr, &only_files);
  if (error < 0) {
    av_dict_free(&only_files);
    avformat_free_context(format);
    fail("cannot be opened", error);
  }
  format->flags |= AVFMT_FLAG_CUSTOM_IO;
  format->io_open = refuse_to_open;
  format->probesize = kProbeBytes;
  format->max_analyze_duration = kProbeMicroseconds;
  // FFmpeg calls this before each packet that it reads to identify the streams.
  format->interrupt_callback = {[](void* probed) -> int {
                                  int64_t& count = *static_cast<int64_t*>(probed);
                                  return count >= 0 && ++count > kMaxProbedPackets ? 1 : 0;
                                },
                                probed_.get()};
  file_bytes_ = std::clamp<int64_t>(avio_size(format->pb), 0, INT64_MAX / (4 * kDecodedFactor));
  AVIOContext* io = format->pb;
  av_dict_free(&only_files);
  AVDictionary* only_formats = nullptr;
  av_dict_set(&only_formats, "format_whitelist", kFormats, 0);
  av_dict_set(&only_formats, "codec_whitelist", kCodecs, 0);
  error = avformat_open_input(&format, "", nullptr, &only_formats);
  av_dict_free(&only_formats);
  if (error < 0) {  // avformat_open_input has freed `format`
    avio_closep(&io);
    fail("is not a video or audio file that FFmpeg knows, or is cut short", error);
  }
  format_.reset(format);
  error = find_streams();
  if (*probed_ > kMaxProbedPackets)
    throw MediaError("has more than " + std::to_string(kMaxProbedPackets) +
                     " packets before its streams are known; it is damaged");
  if (error < 0) fail("has no streams that can be read", error);
  *probed_ = -1;         // from here on next_packet() counts packets
  last_message.clear();  // drops messages about unused streams

  const AVCodec* decoder = nullptr;
  const int index = av_find_best_stream(format, type, -1, -1, &decoder, 0);
  const char* name = type == AVMEDIA_TYPE_VIDEO ? "video" : "audio";
  if (index == AVERROR_DECODER_NOT_FOUND)
    throw MediaError("has a " + std::string(name) + " stream that this FFmpeg has no decoder for");
  if (index < 0) throw MediaError("has no " + std::string(name) + " stream");
  if (!is_listed(decoder->name))
    throw MediaError("has a " + std::string(name) + " stream of the codec " + decoder->name +
                     ", which is not read; read are: " + listed_codecs());
  stream_ = format->streams[index];
  if (stream_->disposition & AV_DISPOSITION_ATTACHED_PIC) throw MediaError("has no video stream, only a cover picture");
  for (unsigned i = 0; i < format->nb_streams; ++i)
    if (static_cast<int>(i) != index) format->streams[i]->discard = AVDISCARD_ALL;

  codec_.reset(avcodec_alloc_context3(decoder));
  if (!codec_) throw std::bad_alloc();
  if (error = avcodec_parameters_to_context(codec_.get(), stream_->codecpar); error < 0)
    fail("has a stream that cannot be decoded", error);
  codec_->thread_count = 1;  // several threads already read files
  codec_->max_pixels = kMaxPixels;
  codec_->pkt_timebase = stream_->time_base;
  if (error = avcodec_open2(codec_.get(), decoder, nullptr); error < 0)
    fail("has a stream that cannot be decoded", error);
}

int MediaFile::find_streams() {
  // Identifying streams decodes them, so the bound on pixels is set before. For containers that announce streams only
  // later, the bound is kMaxAllocation alone.
  const unsigned streams = format_->nb_streams;
  std::vector<AVDictionary*> options(streams, nullptr);
  for (AVDictionary*& each : options) av_dict_set_int(&each, "max_pixels", kMaxPixels, 0);
  const int error = avformat_find_stream_info(format_.get(), options.data());
  for (AVDictionary*& each : options) av_dict_free(&each);
  return error;
}

bool MediaFile::has(AVMediaType type) const {
  const AVCodec* decoder = nullptr;
  return av_find_best_stream(format_.get(), type, -1, -1, &decoder, 0) >= 0 && is_listed(decoder->name);
}

void MediaFile::count_packet() {
  if (++packets_ > kPacketsFloor + file_bytes_)
    throw MediaError("has more packets than its " + std::to_string(file_bytes_) +
                     " bytes can hold; it is damaged, or made to be endless");
}

void MediaFile::count_decoded(const AVFrame& frame) {
  decoded_size_ += frame.width > 0 ? int64_t{frame.width} * frame.height : int64_t{frame.nb_samples};
  if (decoded_size_ > kDecodedFloor + kDecodedFactor * file_bytes_)
    throw MediaError("decodes to more than " + std::to_string(kDecodedFloor) + " pixels or samples and " +
                     std::to_string(kDecodedFactor) + " for each of its " + std::to_string(file_bytes_) +
                     " bytes; it is damaged, or made to be endless: cut it into parts");
}

bool MediaFile::next_packet(AVPacket& packet) {
  for (;;) {
    av_packet_unref(&packet);
    const int error = av_read_frame(format_.get(), &packet);
    if (error == AVERROR_EOF) return false;
    // A file that is cut short is read up to its end; a caller that needs more gets an error.
    if (error < 0) {
      read_error_ = last_error_ = error;
      return false;
    }
    count_packet();
    if (packet.stream_index == stream_->index) return true;
  }
}

bool MediaFile::next(AVFrame& frame) {
  for (;;) {
    int error = avcodec_receive_frame(codec_.get(), &frame);
    if (error == 0) {
      if (decoded_ > 0 && last_error_ != 0) hole_ = true;
      last_error_ = 0;
      ++decoded_;
      count_decoded(frame);
      return true;
    }
    if (error == AVERROR_EOF) {
      if (decoded_ == 0 && last_error_ != 0) fail("cannot be decoded", last_error_);
      return false;
    }
    if (error != AVERROR(EAGAIN)) {
      last_error_ = error;
      if (draining_) return false;
    }
    if (next_packet(*packet_)) {
      error = avcodec_send_packet(codec_.get(), packet_.get());
      if (error < 0 && error != AVERROR(EAGAIN)) last_error_ = error;
    } else if (!draining_) {
      draining_ = true;
      avcodec_send_packet(codec_.get(), nullptr);
    } else {
      return false;
    }
  }
}

double MediaFile::stated_seconds() {
  const auto seconds_of = [](int64_t ticks, AVRational base) { return static_cast<double>(ticks) * av_q2d(base); };
  if (stream_->duration > 0) return seconds_of(stream_->duration, stream_->time_base);
  if (format_->duration <= 0) return 0;
  const double whole = static_cast<double>(format_->duration) / AV_TIME_BASE;
  // The container's length is that of its longest stream: the last packets show which streams reach it.
  int64_t first = stream_->start_time == AV_NOPTS_VALUE ? INT64_MAX : stream_->start_time, last = INT64_MIN;
  double farthest = 0;
  for (unsigned i = 0; i < format_->nb_streams; ++i) format_->streams[i]->discard = AVDISCARD_DEFAULT;
  if (first != INT64_MAX) seek(first + static_cast<int64_t>(whole / av_q2d(stream_->time_base)));
  for (; av_read_frame(format_.get(), packet_.get()) >= 0; av_packet_unref(packet_.get())) {
    count_packet();
    if (packet_->pts == AV_NOPTS_VALUE) continue;
    const int64_t end = packet_->pts + std::max<int64_t>(packet_->duration, 0);
    farthest = std::max(farthest, seconds_of(end, format_->streams[packet_->stream_index]->time_base));
    if (packet_->stream_index != stream_->index) continue;
    first = std::min(first, packet_->pts);
    last = std::max(last, end);
  }
  // If no stream does, the file is cut short, and the missing part may belong to this stream.
  if (last <= first || farthest < whole - kLate) return whole;
  return seconds_of(last - first, stream_->time_base);
}

bool MediaFile::seek(int64_t timestamp) {
  if (av_seek_frame(format_.get(), stream_->index, timestamp, AVSEEK_FLAG_BACKWARD) < 0) return false;
  avcodec_flush_buffers(codec_.get());
  draining_ = false;
  return true;
}

}  // namespace plimsoll::media
