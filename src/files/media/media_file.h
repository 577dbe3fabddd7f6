// A file opened with FFmpeg, one stream of it decoded.
//
// Bounds, whatever the file announces: formats and codecs by list, the one file by the protocol "file"; 5 MB, 5 seconds
// and 100 000 packets to tell the streams; 2^25 pixels a frame; 640 MiB an allocation of FFmpeg; 4096 packets and one
// for each byte of the file; 2^31 pixels or samples and 2^15 for each byte of the file, decoded. Time follows the last.
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

/// What is the matter with a file; stays inside this library.
struct MediaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws MediaError: "cannot be VERB: REASON", with what FFmpeg had said last.
[[noreturn]] void fail(const std::string& what, int error);

/// "12.50"
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
constexpr double kLate = 0.25;  ///< seconds that the length of a stream may be stated too long by

using Frame = std::unique_ptr<AVFrame, FreeFrame>;

Frame make_frame();

/// FFmpeg's own messages are kept for errors and written nowhere. Called by every function of the table.
void silence();

class MediaFile {
 public:
  /// Opens the file; `type` is the stream that is wanted. Throws MediaError.
  MediaFile(const std::string& path, AVMediaType type);

  AVFormatContext& format() { return *format_; }
  AVStream& stream() { return *stream_; }
  AVCodecContext& codec() { return *codec_; }
  bool has(AVMediaType type) const;  ///< another stream, with a decoder

  /// The next frame of the stream into `frame`; false at the end. Damaged packets are left out, unless nothing else
  /// comes: MediaError then.
  bool next(AVFrame& frame);

  /// Of what next() gave so far: whether packets between frames could not be decoded, and whether it ended because the
  /// file could not be read further.
  bool has_hole() const { return hole_; }
  bool broke_off() const { return read_error_ != 0; }

  /// The length of the stream, or 0 where nothing states it. Where only the container does, which goes by the longest
  /// of its streams, the stream's last packet tells; where all of them end before that, the container's length. May
  /// read to the end of the file: nothing else can be read from this then.
  double stated_seconds();

  /// To a key frame at or before `timestamp` (in the stream's time base), where the file can.
  bool seek(int64_t timestamp);

  /// The next packet of the stream, undecoded; false at the end.
  bool next_packet(AVPacket& packet);

 private:
  int find_streams();
  void count_packet();
  void count_decoded(const AVFrame& frame);

  std::unique_ptr<AVFormatContext, CloseFile> format_;
  std::unique_ptr<AVCodecContext, FreeCodec> codec_;
  std::unique_ptr<AVPacket, FreePacket> packet_;
  std::unique_ptr<int64_t> probed_;  ///< packets read to tell the streams; -1: they are told
  AVStream* stream_ = nullptr;
  int64_t file_bytes_ = 0;
  int64_t packets_ = 0;       ///< read since the streams are told
  int64_t decoded_size_ = 0;  ///< pixels or samples of all frames
  int64_t decoded_ = 0;       ///< frames
  int last_error_ = 0;        ///< since the last frame
  int read_error_ = 0;
  bool hole_ = false;
  bool draining_ = false;
};

}  // namespace plimsoll::media
