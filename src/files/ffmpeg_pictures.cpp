#include "files/ffmpeg_functions.h"

extern "C" {
#include <libavutil/imgutils.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "files/ffmpeg_display.h"
#include "files/ffmpeg_file.h"

namespace plimsoll::media {
namespace {

constexpr double kWorthSeeking = 2;  ///< seconds: for a shorter distance, continuing to decode is as fast

double frame_rate_of(const AVStream& stream) {
  for (const AVRational rate : {stream.avg_frame_rate, stream.r_frame_rate})
    if (rate.num > 0 && rate.den > 0) return av_q2d(rate);
  return 25;
}

// A reader of a video's frames in display order, with times relative to the first frame. Containers disagree on whether
// the stated start of a stream is the first picture's time (AVI: it is not, if decoding order and display order
// differ).
class Pictures {
 public:
  explicit Pictures(const std::string& path) : file_(path, AVMEDIA_TYPE_VIDEO), first_picture_(make_frame()) {
    seconds_per_tick_ = av_q2d(file_.stream().time_base);
    duration_ = 1 / frame_rate_of(file_.stream());
    if (!file_.next(*first_picture_)) throw MediaError("has no picture that can be decoded");
    orientation_ = orientation_of(file_.stream(), *first_picture_);
    if (first_picture_->best_effort_timestamp != AV_NOPTS_VALUE) first_ = first_picture_->best_effort_timestamp;
  }

  /// Decodes from a key frame at or before `seconds` on; returns false if the file cannot be sought.
  bool seek(double seconds) {
    next_ = seconds;
    first_picture_.reset();
    return file_.seek(first_ + static_cast<int64_t>(seconds / seconds_per_tick_));
  }

  bool next(AVFrame& frame) {
    av_frame_unref(&frame);
    if (first_picture_) {
      av_frame_move_ref(&frame, first_picture_.get());
      first_picture_.reset();
    } else if (!file_.next(frame)) {
      return false;
    }
    // A matrix that one picture states holds for those behind it. After a seek it would not be known.
    if (orientation_of(file_.stream(), frame, orientation_) != orientation_)
      throw MediaError("turns its pictures from one picture on; write turned pictures with: ffmpeg -i IN OUT");
    begins_ = frame.best_effort_timestamp == AV_NOPTS_VALUE
                  ? next_
                  : static_cast<double>(frame.best_effort_timestamp - first_) * seconds_per_tick_;
    const double lasts = frame.pkt_duration > 0 ? static_cast<double>(frame.pkt_duration) * seconds_per_tick_ : 0;
    next_ = begins_ + std::max(lasts, duration_);
    return true;
  }
  double begins() const { return begins_; }  ///< begin of the last frame, seconds
  double ends() const { return next_; }
  Orientation orientation() const { return orientation_; }  ///< orientation of the last frame
  const AVStream& stream() { return file_.stream(); }

 private:
  MediaFile file_;
  Frame first_picture_;  ///< kept until it is requested
  double seconds_per_tick_ = 0, duration_ = 0;
  int64_t first_ = 0;
  Orientation orientation_ = kUpright;
  double begins_ = 0, next_ = 0;
};

// Decodes the first picture: some facts are stated in frames alone.
void describe_picture(const std::string& path, VideoInfo& info) {
  MediaFile file(path, AVMEDIA_TYPE_VIDEO);
  const Frame frame = make_frame();
  if (!file.next(*frame)) throw MediaError("has no picture that can be decoded");
  check_colors(file.stream(), *frame);
  info.orientation = orientation_of(file.stream(), *frame);
  const SeenSides sides = seen_sides(file.format(), file.stream(), *frame, info.orientation);
  info.width = sides.width;
  info.height = sides.height;
  info.notes = notes_of(file.stream(), *frame);
  info.alpha = has_alpha(*frame);
  if (info.alpha && WhitePage().put(*frame)) info.notes.emplace_back("transparent pixels are shown on white");
}

}  // namespace

VideoInfo describe(const std::string& path) {
  MediaFile file(path, AVMEDIA_TYPE_VIDEO);
  const AVStream& stream = file.stream();
  VideoInfo info;
  if (file.codec().width <= 0 || file.codec().height <= 0) throw MediaError("has a video stream without a size");
  info.frame_rate = frame_rate_of(stream);
  info.frames = stream.nb_frames;
  info.audio = file.has(AVMEDIA_TYPE_AUDIO);
  info.seconds = file.stated_seconds();
  if (info.seconds <= 0) {  // a bare stream: its packets determine the length
    const std::unique_ptr<AVPacket, FreePacket> packet(av_packet_alloc());
    if (!packet) throw std::bad_alloc();
    info.frames = 0;
    while (file.next_packet(*packet)) ++info.frames;
    info.seconds = static_cast<double>(info.frames) / info.frame_rate;
  }
  if (info.frames <= 0) info.frames = std::max<int64_t>(1, std::llround(info.seconds * info.frame_rate));
  describe_picture(path, info);
  return info;
}

void frames(const std::string& path, const std::vector<double>& seconds, int64_t width, int64_t height,
            std::vector<uint8_t>& pixels) {
  if (seconds.empty()) return;
  const size_t picture = static_cast<size_t>(width * height * 3);
  Scaler scaler(static_cast<int>(width), static_cast<int>(height));
  Frame shown = make_frame(), following = make_frame();
  std::unique_ptr<Pictures> video = std::make_unique<Pictures>(path);
  // Some files have no index, and some have one that leads to a later frame: these are decoded from their beginning.
  if (seconds.front() > kWorthSeeking) {
    const bool there = video->seek(seconds.front()) && video->next(*shown) && video->begins() <= seconds.front();
    if (!there) {
      video = std::make_unique<Pictures>(path);
      av_frame_unref(shown.get());
    }
  }
  if (shown->width == 0 && !video->next(*shown)) throw MediaError("has no picture that can be decoded");
  double ends = video->ends();
  Orientation orientation = video->orientation();
  bool more = video->next(*following);
  for (size_t i = 0; i < seconds.size(); ++i) {
    // A frame is shown until the next one begins; containers round by up to half a tick.
    while (more && video->begins() <= seconds[i] + 1e-6) {
      std::swap(shown, following);
      ends = video->ends();
      orientation = video->orientation();
      more = video->next(*following);
    }
    if (!more && seconds[i] > ends + kLate)
      throw MediaError("ends at " + in_seconds(ends) + " s, and the picture at " + in_seconds(seconds[i]) +
                       " s was asked for; it is cut short or damaged");
    check_colors(video->stream(), *shown);
    scaler.scale(*shown, orientation, pixels.data() + i * picture);
  }
}

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

/// A format whose values are taken as they are.
struct Layout {
  AVPixelFormat format;
  int bits, there, kept;  ///< the arguments of take()
};
constexpr std::array<Layout, 9> kLayouts = {{{AV_PIX_FMT_MONOBLACK, 1, 1, 1},
                                             {AV_PIX_FMT_GRAY8, 8, 1, 1},
                                             {AV_PIX_FMT_YA8, 8, 2, 1},
                                             {AV_PIX_FMT_RGB24, 8, 3, 3},
                                             {AV_PIX_FMT_RGBA, 8, 4, 3},
                                             {AV_PIX_FMT_GRAY16BE, 16, 1, 1},
                                             {AV_PIX_FMT_YA16BE, 16, 2, 1},
                                             {AV_PIX_FMT_RGB48BE, 16, 3, 3},
                                             {AV_PIX_FMT_RGBA64BE, 16, 4, 3}}};

}  // namespace

Picture picture(const std::vector<uint8_t>& bytes, bool png) {
  const Frame frame = decoded(bytes, png ? AV_CODEC_ID_PNG : AV_CODEC_ID_MJPEG);
  Picture picture;
  picture.width = frame->width;
  picture.height = frame->height;
  if (frame->format == AV_PIX_FMT_PAL8)
    take_palette(*frame, picture);
  else if (const auto* layout = std::ranges::find(kLayouts, frame->format, &Layout::format); layout != kLayouts.end())
    take(*frame, layout->bits, layout->there, layout->kept, picture);
  else
    convert(*frame, picture);
  return picture;
}

}  // namespace plimsoll::media
