// Declares a file opened with FFmpeg, of which one stream is decoded.
//
// Bounds, for any file: formats and codecs by list, the one file by the protocol "file"; 5 MB, 5 seconds and 100 000
// packets to identify the streams; 2^25 pixels a frame; 640 MiB an allocation of FFmpeg; 4096 packets and one for each
// byte of the file; 2^31 pixels or samples and 2^15 for each byte of the file, decoded. Time is proportional to the
// last.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/frame.h>
}

#include <memory>
#include <stdexcept>
#include <string>

namespace plimsoll::media {

/// An error of a file; it does not leave this library.
struct MediaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws MediaError: "cannot be VERB: REASON", with FFmpeg's last message.
[[noreturn]] void fail(const std::string& what, int error);

/// Returns seconds as text: "12.50".
std::string in_seconds(double value);

struct FreeFrame {
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
};
struct FreePacket {
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
};
struct FreeCodec {
  void operator()(AVCodecContext* codec) const { avcodec_free_context(&codec); }
};
struct CloseFile {
  void operator()(AVFormatContext* format) const;
};
constexpr double kLate = 0.25;  ///< seconds by which the stated length of a stream may be too long

using Frame = std::unique_ptr<AVFrame, FreeFrame>;

Frame make_frame();

/// Keeps FFmpeg's own messages for errors instead of writing them. Every function of the table calls it.
void silence();

class MediaFile {
 public:
  /// Opens the file; `type` is the stream to decode. Throws MediaError.
  MediaFile(const std::string& path, AVMediaType type);

  AVFormatContext& format() { return *format_; }
  AVStream& stream() { return *stream_; }
  AVCodecContext& codec() { return *codec_; }
  bool has(AVMediaType type) const;  ///< true if the file has a stream of `type` with a supported decoder

  /// Decodes the next frame of the stream into `frame`; returns false at the end. Damaged packets are skipped; throws
  /// MediaError if no frame follows them.
  bool next(AVFrame& frame);

  /// Return true if packets between the frames of next() so far could not be decoded (has_hole), or if next() ended
  /// because the file could not be read further (broke_off).
  bool has_hole() const { return hole_; }
  bool broke_off() const { return read_error_ != 0; }

  /// Returns the length of the stream in seconds, or 0 if it is not stated. If only the container states a length,
  /// which is that of its longest stream, the stream's last packet decides; if all streams end before that length, the
  /// container's length holds. May read to the end of the file; then nothing else can be read from this object.
  double stated_seconds();

  /// Seeks to a key frame at or before `timestamp` (in the stream's time base); returns false if the file cannot be
  /// sought.
  bool seek(int64_t timestamp);

  /// Reads the next packet of the stream, undecoded; returns false at the end.
  bool next_packet(AVPacket& packet);

 private:
  int find_streams();
  void count_packet();
  void count_decoded(const AVFrame& frame);

  std::unique_ptr<AVFormatContext, CloseFile> format_;
  std::unique_ptr<AVCodecContext, FreeCodec> codec_;
  std::unique_ptr<AVPacket, FreePacket> packet_;
  std::unique_ptr<int64_t> probed_;  ///< packets read to identify the streams; -1: they are identified
  AVStream* stream_ = nullptr;
  int64_t file_bytes_ = 0;
  int64_t packets_ = 0;       ///< packets read since the streams were identified
  int64_t decoded_size_ = 0;  ///< pixels or samples of all frames
  int64_t decoded_ = 0;       ///< frames
  int last_error_ = 0;        ///< since the last frame
  int read_error_ = 0;
  bool hole_ = false;
  bool draining_ = false;
};

}  // namespace plimsoll::media
