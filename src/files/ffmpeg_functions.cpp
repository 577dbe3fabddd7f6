#include "files/ffmpeg_functions.h"

extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/opt.h>
#include <libavutil/tx.h>
#include <libswresample/swresample.h>
}

#include <algorithm>
#include <complex>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

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
