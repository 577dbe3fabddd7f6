#include "files/media/video.h"

extern "C" {
#include <libavutil/imgutils.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "files/media/display.h"
#include "files/media/media_file.h"

namespace plimsoll::media {
namespace {

constexpr double kWorthSeeking = 2;  ///< seconds: for a shorter distance, continuing to decode is as fast

double frame_rate_of(const AVStream& stream) {
  for (const AVRational rate : {stream.avg_frame_rate, stream.r_frame_rate})
    if (rate.num > 0 && rate.den > 0) return av_q2d(rate);
  return 25;
}

// A converter of pictures of any format and size to upright RGB pictures of one size.
class Scaler {
 public:
  Scaler(int width, int height) : width_(width), height_(height) {}
  ~Scaler() { sws_freeContext(context_); }
  Scaler(const Scaler&) = delete;
  Scaler& operator=(const Scaler&) = delete;

  /// Scales first and turns the small picture then: the scale along a side of the stored picture is the same.
  void scale(const AVFrame& frame, Orientation orientation, uint8_t* out) {
    make_picture(swaps_sides(orientation) ? height_ : width_, swaps_sides(orientation) ? width_ : height_);
    const auto format = static_cast<AVPixelFormat>(frame.format);
    const bool smaller = int64_t{picture_->width} * picture_->height < int64_t{frame.width} * frame.height;
    context_ = sws_getCachedContext(
        context_, frame.width, frame.height, format, picture_->width, picture_->height, AV_PIX_FMT_RGB24,
        (smaller ? SWS_AREA : SWS_BICUBIC) | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, nullptr, nullptr, nullptr);
    if (context_ == nullptr) throw MediaError("has pictures of a format that cannot be made RGB");
    const bool full_range = frame.color_range == AVCOL_RANGE_JPEG || format == AV_PIX_FMT_YUVJ420P ||
                            format == AV_PIX_FMT_YUVJ422P || format == AV_PIX_FMT_YUVJ444P;
    // A damaged stream may have a value here that the enumeration does not have; libswscale accepts any number.
    int color_space = 0;
    static_assert(sizeof color_space == sizeof frame.colorspace);
    std::memcpy(&color_space, &frame.colorspace, sizeof color_space);
    sws_setColorspaceDetails(context_, sws_getCoefficients(color_space), full_range,
                             sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
    if (sws_scale(context_, frame.data, frame.linesize, 0, frame.height, picture_->data, picture_->linesize) <= 0)
      throw MediaError("has a picture that cannot be scaled");
    if (orientation == kUpright) {
      const size_t row = static_cast<size_t>(width_) * 3;
      for (int y = 0; y < height_; ++y)
        std::memcpy(out + static_cast<size_t>(y) * row, picture_->data[0] + int64_t{y} * picture_->linesize[0], row);
      return;
    }
    for (int y = 0; y < height_; ++y)
      for (int x = 0; x < width_; ++x, out += 3) {
        const int64_t from = stored_pixel(orientation, x, y, picture_->width, picture_->height);
        std::memcpy(out,
                    picture_->data[0] + from / picture_->width * picture_->linesize[0] + from % picture_->width * 3, 3);
      }
  }

 private:
  void make_picture(int width, int height) {
    if (picture_ && picture_->width == width && picture_->height == height) return;
    picture_ = make_frame();
    picture_->format = AV_PIX_FMT_RGB24;
    picture_->width = width;
    picture_->height = height;
    // Rows are allocated separately, with padding at their ends: swscale's vector code writes past them.
    if (av_frame_get_buffer(picture_.get(), 64) < 0) throw std::bad_alloc();
  }

  int width_, height_;
  Frame picture_;  ///< sides as stored
  SwsContext* context_ = nullptr;
};

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
    orientation_ = orientation_of(file_.stream(), frame, orientation_);
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

}  // namespace plimsoll::media
