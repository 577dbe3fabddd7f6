#include "files/media/video.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "files/media/display.h"
#include "files/media/media_file.h"
#include "files/media/scaler.h"

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

}  // namespace plimsoll::media
