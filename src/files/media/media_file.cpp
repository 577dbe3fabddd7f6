#include "files/media/media_file.h"

extern "C" {
#include <libavutil/log.h>
}

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <mutex>

namespace plimsoll::media {
namespace {

// Decoders run on the thread that calls them, so that what they said last is of this file.
thread_local std::string last_said;

void keep_message(void*, int level, const char* format, va_list values) {
  if (level > AV_LOG_ERROR) return;
  char line[512];
  std::vsnprintf(line, sizeof line, format, values);
  last_said = line;
  while (!last_said.empty() && (last_said.back() == '\n' || last_said.back() == '.')) last_said.pop_back();
}

// What is read. Playlists (concat, hls, dash, imf, ...) are not: they name other files or addresses, which some of them
// open by themselves, without asking io_open.
constexpr const char* kFormats =
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,asf,ogg,mxf,dv,"  // containers
    "gif,apng,yuv4mpegpipe,ivf,h264,hevc,m4v,"                                             // pictures only
    "wav,w64,aiff,au,caf,mp3,flac,aac,ac3,eac3";                                           // sound only

// A reference in a file of these formats: the only file that is opened is the one that was named.
int refuse_to_open(AVFormatContext*, AVIOContext** io, const char*, int, AVDictionary**) {
  *io = nullptr;
  return AVERROR(EPERM);
}

// More pixels than any camera has: a header that claims them is wrong, and decoders would allocate them.
constexpr int64_t kMostPixels = int64_t{1} << 26;

}  // namespace

void fail(const std::string& what, int error) {
  char reason[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(error, reason, sizeof reason);
  std::string message = what + ": " + reason;
  if (!last_said.empty()) message += " (" + last_said + ")";
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
  std::call_once(once, [] { av_log_set_callback(keep_message); });
  last_said.clear();
}

void CloseFile::operator()(AVFormatContext* format) const {
  AVIOContext* io = format->pb;  // ours (AVFMT_FLAG_CUSTOM_IO): closing the format leaves it open
  avformat_close_input(&format);
  avio_closep(&io);
}

MediaFile::MediaFile(const std::string& path, AVMediaType type) : packet_(av_packet_alloc()) {
  AVFormatContext* format = avformat_alloc_context();
  if (format == nullptr || packet_ == nullptr) throw std::bad_alloc();
  AVDictionary* only_files = nullptr;
  av_dict_set(&only_files, "protocol_whitelist", "file", 0);
  // "file:" so that no name is taken for a protocol.
  int error = avio_open2(&format->pb, ("file:" + path).c_str(), AVIO_FLAG_READ, nullptr, &only_files);
  if (error < 0) {
    av_dict_free(&only_files);
    avformat_free_context(format);
    fail("cannot be opened", error);
  }
  format->flags |= AVFMT_FLAG_CUSTOM_IO;
  format->io_open = refuse_to_open;
  AVIOContext* io = format->pb;
  av_dict_free(&only_files);
  AVDictionary* only_formats = nullptr;
  av_dict_set(&only_formats, "format_whitelist", kFormats, 0);
  error = avformat_open_input(&format, "", nullptr, &only_formats);
  av_dict_free(&only_formats);
  if (error < 0) {  // which has freed `format`
    avio_closep(&io);
    fail("is not a video or audio file that FFmpeg knows, or is cut short", error);
  }
  format_.reset(format);
  if (error = avformat_find_stream_info(format, nullptr); error < 0) fail("has no streams that can be read", error);

  const AVCodec* decoder = nullptr;
  const int index = av_find_best_stream(format, type, -1, -1, &decoder, 0);
  const char* name = type == AVMEDIA_TYPE_VIDEO ? "video" : "audio";
  if (index == AVERROR_DECODER_NOT_FOUND)
    throw MediaError("has a " + std::string(name) + " stream that this FFmpeg has no decoder for");
  if (index < 0) throw MediaError("has no " + std::string(name) + " stream");
  stream_ = format->streams[index];
  if (stream_->disposition & AV_DISPOSITION_ATTACHED_PIC) throw MediaError("has no video stream, only a cover picture");
  for (unsigned i = 0; i < format->nb_streams; ++i)
    if (static_cast<int>(i) != index) format->streams[i]->discard = AVDISCARD_ALL;

  codec_.reset(avcodec_alloc_context3(decoder));
  if (!codec_) throw std::bad_alloc();
  if (error = avcodec_parameters_to_context(codec_.get(), stream_->codecpar); error < 0)
    fail("has a stream that cannot be decoded", error);
  codec_->thread_count = 1;  // files are read by several threads already
  codec_->max_pixels = kMostPixels;
  codec_->pkt_timebase = stream_->time_base;
  if (error = avcodec_open2(codec_.get(), decoder, nullptr); error < 0)
    fail("has a stream that cannot be decoded", error);
}

bool MediaFile::has(AVMediaType type) const {
  return av_find_best_stream(format_.get(), type, -1, -1, nullptr, 0) >= 0;
}

bool MediaFile::next_packet(AVPacket& packet) {
  for (;;) {
    av_packet_unref(&packet);
    const int error = av_read_frame(format_.get(), &packet);
    if (error == AVERROR_EOF) return false;
    // Cut short: what is there is read, and who asks for more than that is told.
    if (error < 0) {
      read_error_ = last_error_ = error;
      return false;
    }
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
  // The container's length is that of its longest stream: the last packets tell which streams reach it.
  int64_t first = stream_->start_time == AV_NOPTS_VALUE ? INT64_MAX : stream_->start_time, last = INT64_MIN;
  double farthest = 0;
  for (unsigned i = 0; i < format_->nb_streams; ++i) format_->streams[i]->discard = AVDISCARD_DEFAULT;
  if (first != INT64_MAX) seek(first + static_cast<int64_t>(whole / av_q2d(stream_->time_base)));
  for (; av_read_frame(format_.get(), packet_.get()) >= 0; av_packet_unref(packet_.get())) {
    if (packet_->pts == AV_NOPTS_VALUE) continue;
    const int64_t end = packet_->pts + std::max<int64_t>(packet_->duration, 0);
    farthest = std::max(farthest, seconds_of(end, format_->streams[packet_->stream_index]->time_base));
    if (packet_->stream_index != stream_->index) continue;
    first = std::min(first, packet_->pts);
    last = std::max(last, end);
  }
  // Where none does the file is cut short, and what is missing may be of this stream.
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
