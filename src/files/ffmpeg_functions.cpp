#include "files/ffmpeg_functions.h"

extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/tx.h>
#include <libswresample/swresample.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "files/ffmpeg_display.h"
#include "files/ffmpeg_file.h"
#include "files/media.h"

namespace plimsoll::media {
namespace {

// Returns the error message of `action`; "" if there is none.
template <typename Action>
std::string matter_with(const Action& action) {
  try {
    silence();
    action();
    return "";
  } catch (const std::bad_alloc&) {
    return "takes more memory than there is";
  } catch (const std::exception& error) {
    return error.what();
  }
}

constexpr Functions kFunctions = {
    .describe = [](const std::string& path,
                   VideoInfo& info) { return matter_with([&] { info = media::describe(path); }); },
    .frames =
        [](const std::string& path, const std::vector<double>& seconds, int64_t width, int64_t height,
           std::vector<uint8_t>& pixels) {
          return matter_with([&] { media::frames(path, seconds, width, height, pixels); });
        },
    .audio = [](const std::string& path, int64_t sample_rate,
                std::vector<float>& samples) { return matter_with([&] { media::audio(path, sample_rate, samples); }); },
    .picture = [](const std::vector<uint8_t>& bytes, bool png,
                  Picture& picture) { return matter_with([&] { picture = media::picture(bytes, png); }); },
    .fourier =
        [](int64_t size, std::unique_ptr<FourierTransform>& transform) {
          return matter_with([&] { transform = media::fourier(size); });
        },
};

}  // namespace
}  // namespace plimsoll::media

extern "C" __attribute__((visibility("default"))) const plimsoll::media::Functions* plimsoll_media_functions(
    int version) {
  return version == plimsoll::media::kVersion ? &plimsoll::media::kFunctions : nullptr;
}

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

struct FreeResampler {
  void operator()(SwrContext* context) const { swr_free(&context); }
};
using Resampler = std::unique_ptr<SwrContext, FreeResampler>;

Resampler make_resampler(const AVFrame& frame, int sample_rate) {
  AVChannelLayout mono, from;
  av_channel_layout_default(&mono, 1);
  const int channels = frame.ch_layout.nb_channels;
  // Some files have a number of channels, but not their layout.
  if (frame.ch_layout.order == AV_CHANNEL_ORDER_UNSPEC) {
    av_channel_layout_default(&from, channels);
  } else {
    from = frame.ch_layout;
  }
  SwrContext* context = nullptr;
  int error = swr_alloc_set_opts2(&context, &mono, AV_SAMPLE_FMT_FLT, sample_rate, &from,
                                  static_cast<AVSampleFormat>(frame.format), frame.sample_rate, 0, nullptr);
  Resampler resampler(context);
  // Channels are averaged, not added: by default libswresample lets sums of floats exceed 1.
  if (error >= 0) error = av_opt_set_double(context, "rematrix_maxval", 1.0, 0);
  if (error >= 0) error = swr_init(context);
  if (error < 0) fail("has sound that cannot be resampled", error);
  return resampler;
}

// Appends the converted samples of `frame` to `samples`; nullptr: the resampler's remaining samples.
void append(SwrContext& context, const AVFrame* frame, std::vector<float>& samples) {
  const int room = swr_get_out_samples(&context, frame == nullptr ? 0 : frame->nb_samples);
  if (room <= 0) return;
  if (std::ssize(samples) + room > kMaxAudioSamples)
    throw MediaError("has more than " + std::to_string(kMaxAudioSamples) + " samples of sound; cut it into parts");
  const size_t before = samples.size();
  samples.resize(before + static_cast<size_t>(room));
  auto* out = reinterpret_cast<uint8_t*>(samples.data() + before);
  const int made = frame == nullptr ? swr_convert(&context, &out, room, nullptr, 0)
                                    : swr_convert(&context, &out, room,
                                                  const_cast<const uint8_t**>(frame->extended_data), frame->nb_samples);
  if (made < 0) fail("has sound that cannot be resampled", made);
  samples.resize(before + static_cast<size_t>(made));
}

// Throws for incomplete sound: it would be out of step with the pictures, or silent in the wrong place. `heard`:
// seconds that were decoded.
void check_whole(const std::string& path, MediaFile& file, double heard) {
  if (file.has_hole()) throw MediaError("has sound that cannot be decoded in its middle; it is damaged");
  // A length guessed from the file's size is meaningless for a variable bit rate.
  const bool guessed = file.format().duration_estimation_method == AVFMT_DURATION_FROM_BITRATE;
  const double stated = guessed ? 0 : MediaFile(path, AVMEDIA_TYPE_AUDIO).stated_seconds();
  if (file.broke_off() && stated <= 0)
    throw MediaError("has sound that cannot be read after " + in_seconds(heard) + " s; it is cut short or damaged");
  if (heard < stated - kLate)
    throw MediaError("has sound that ends at " + in_seconds(heard) + " s, and says that it lasts " +
                     in_seconds(stated) + " s; it is cut short or damaged");
}

}  // namespace

void audio(const std::string& path, int64_t sample_rate, std::vector<float>& samples) {
  MediaFile file(path, AVMEDIA_TYPE_AUDIO);
  const Frame frame = make_frame();
  Resampler resampler;
  int format = -1, rate = 0, channels = 0;
  double heard = 0, ends = 0;  // seconds: decoded, and last time stamp after the stream's start
  while (file.next(*frame)) {
    // A stream's format may change; a new resampler is then needed, after the samples that the old one still holds.
    if (!resampler || frame->format != format || frame->sample_rate != rate ||
        frame->ch_layout.nb_channels != channels) {
      if (resampler) append(*resampler, nullptr, samples);
      resampler = make_resampler(*frame, static_cast<int>(sample_rate));
      format = frame->format;
      rate = frame->sample_rate;
      channels = frame->ch_layout.nb_channels;
    }
    append(*resampler, frame.get(), samples);
    const double lasts = static_cast<double>(frame->nb_samples) / rate;
    heard += lasts;
    if (frame->best_effort_timestamp != AV_NOPTS_VALUE && file.stream().start_time != AV_NOPTS_VALUE)
      ends = static_cast<double>(frame->best_effort_timestamp - file.stream().start_time) *
                 av_q2d(file.stream().time_base) +
             lasts;
    av_frame_unref(frame.get());
  }
  if (resampler) append(*resampler, nullptr, samples);
  if (samples.empty()) throw MediaError("has no sound that can be decoded");
  check_whole(path, file, std::max(heard, ends));
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

}  // namespace

Picture picture(const std::vector<uint8_t>& bytes, bool png) {
  const Frame frame = decoded(bytes, png ? AV_CODEC_ID_PNG : AV_CODEC_ID_MJPEG);
  Picture picture;
  picture.width = frame->width;
  picture.height = frame->height;
  switch (frame->format) {
    case AV_PIX_FMT_MONOBLACK:
      take(*frame, 1, 1, 1, picture);
      break;
    case AV_PIX_FMT_GRAY8:
      take(*frame, 8, 1, 1, picture);
      break;
    case AV_PIX_FMT_YA8:
      take(*frame, 8, 2, 1, picture);
      break;
    case AV_PIX_FMT_RGB24:
      take(*frame, 8, 3, 3, picture);
      break;
    case AV_PIX_FMT_RGBA:
      take(*frame, 8, 4, 3, picture);
      break;
    case AV_PIX_FMT_GRAY16BE:
      take(*frame, 16, 1, 1, picture);
      break;
    case AV_PIX_FMT_YA16BE:
      take(*frame, 16, 2, 1, picture);
      break;
    case AV_PIX_FMT_RGB48BE:
      take(*frame, 16, 3, 3, picture);
      break;
    case AV_PIX_FMT_RGBA64BE:
      take(*frame, 16, 4, 3, picture);
      break;
    case AV_PIX_FMT_PAL8:
      take_palette(*frame, picture);
      break;
    default:
      convert(*frame, picture);
  }
  return picture;
}

namespace {

class Transform final : public FourierTransform {
 public:
  explicit Transform(int64_t size) : result_(static_cast<size_t>(size)) {
    const double scale = 1;
    const int error =
        av_tx_init(&context_, &run_, AV_TX_DOUBLE_FFT, 0, static_cast<int>(size), &scale, AV_TX_UNALIGNED);
    if (error < 0) fail("cannot be computed", error);
  }
  ~Transform() override { av_tx_uninit(&context_); }

  std::span<const std::complex<double>> of(std::span<std::complex<double>> values) override {
    run_(context_, result_.data(), values.data(), sizeof(std::complex<double>));
    return result_;
  }

 private:
  AVTXContext* context_ = nullptr;
  av_tx_fn run_ = nullptr;
  std::vector<std::complex<double>> result_;
};

}  // namespace

std::unique_ptr<FourierTransform> fourier(int64_t size) {
  return std::make_unique<Transform>(size);
}

}  // namespace plimsoll::media
