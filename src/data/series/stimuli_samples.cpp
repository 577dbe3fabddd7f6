#include "data/series/stimuli_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/text.h"
#include "data/series/fmri_series.h"
#include "data/series/run_split.h"
#include "data/series/stimulus_labels.h"
#include "data/series/stimulus_media.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

float* row(FmriSeries& series, int64_t volume) {
  return series.values.data() + volume * series.voxels;
}

// Share of a mean square up to which a variance is rounding error: single precision changes a constant by at most 2^-24
// of it.
constexpr double kRounding = 1e-12;

}  // namespace

void detrend(FmriSeries& series, const std::vector<int64_t>& run, const std::vector<char>& usable, bool line) {
  const auto voxels = static_cast<size_t>(series.voxels);
  for (int64_t begin = 0; begin < series.volumes;) {
    const int64_t of = run[static_cast<size_t>(begin)];
    Volumes volumes;
    int64_t end = begin;
    for (; end < series.volumes && run[static_cast<size_t>(end)] == of; ++end)
      if (usable[static_cast<size_t>(end)]) volumes.push_back(end);
    begin = end;
    if (volumes.empty()) continue;
    const auto count = static_cast<double>(volumes.size());
    double middle = 0, spread = 0;
    for (int64_t v : volumes) middle += static_cast<double>(v) / count;
    for (int64_t v : volumes) spread += (static_cast<double>(v) - middle) * (static_cast<double>(v) - middle);
    std::vector<double> mean(voxels, 0.0), slope(voxels, 0.0), before(voxels, 0.0), after(voxels, 0.0);
    for (int64_t v : volumes)
      for (size_t i = 0; i < voxels; ++i) mean[i] += static_cast<double>(row(series, v)[i]) / count;
    if (line && spread > 0)
      for (int64_t v : volumes)
        for (size_t i = 0; i < voxels; ++i)
          slope[i] += (static_cast<double>(v) - middle) * (static_cast<double>(row(series, v)[i]) - mean[i]) / spread;
    for (int64_t v : volumes)
      for (size_t i = 0; i < voxels; ++i) {
        const auto value = static_cast<double>(row(series, v)[i]);
        const double left = value - mean[i] - slope[i] * (static_cast<double>(v) - middle);
        row(series, v)[i] = static_cast<float>(left);
        before[i] += value * value;
        after[i] += left * left;
      }
    // The rounding error of a constant or of a line is no signal, and differs in every run.
    for (int64_t v : volumes)
      for (size_t i = 0; i < voxels; ++i)
        if (after[i] <= kRounding * before[i]) row(series, v)[i] = 0;
  }
}

void standardize(FmriSeries& series, const Volumes& over) {
  check(!over.empty(), "voxels are standardized over at least one volume");
  const auto voxels = static_cast<size_t>(series.voxels);
  const auto count = static_cast<double>(over.size());
  std::vector<double> mean(voxels, 0.0), variance(voxels, 0.0);
  for (int64_t v : over)
    for (size_t i = 0; i < voxels; ++i) mean[i] += static_cast<double>(row(series, v)[i]) / count;
  for (int64_t v : over)
    for (size_t i = 0; i < voxels; ++i) {
      const double deviation = static_cast<double>(row(series, v)[i]) - mean[i];
      variance[i] += deviation * deviation / count;
    }
  for (int64_t v = 0; v < series.volumes; ++v)
    for (size_t i = 0; i < voxels; ++i) {
      // The rounding error of a constant is no signal.
      const bool constant = variance[i] <= kRounding * mean[i] * mean[i];
      float& value = row(series, v)[i];
      value = constant ? 0 : static_cast<float>((static_cast<double>(value) - mean[i]) / std::sqrt(variance[i]));
    }
}

namespace {

constexpr float kBlack = -1;
constexpr double kTimeTolerance = 1e-3;  // relative

using Progress = std::function<void(const std::string&, double)>;

/// Returns a field of float32 with `value` in all elements.
BatchField field(const char* name, std::vector<int64_t> sizes, float value) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  BatchField made{name, DType::float32, std::move(sizes), std::vector<std::byte>(static_cast<size_t>(count) * 4)};
  std::fill_n(reinterpret_cast<float*>(made.bytes.data()), count, value);
  return made;
}
float* numbers_of(BatchField& field, int64_t sample) {
  int64_t count = 1;
  for (size_t i = 1; i < field.sizes.size(); ++i) count *= field.sizes[i];
  return reinterpret_cast<float*>(field.bytes.data()) + sample * count;
}

class StimuliSamples final : public SampleSource {
 public:
  StimuliSamples(const DataConfig& config, const StimuliShape& shape, const Progress& progress, uint64_t seed)
      : config_(config.stimuli),
        shape_(shape),
        seed_(seed),
        series_(read_fmri(config.stimuli.fmri, config.stimuli.mask)) {
    leave_out_voxels(config);
    if (series_.voxels != shape.voxels)
      throw UserError(fmt::format(
          "data.fmri: {} has {} {}, and model.voxels is {}; the first volume begins with: {}; if "
          "these are the values to learn, set model.voxels: {}",
          file_and_mask(), series_.voxels, series_.counted, shape.voxels, series_.first_values(), series_.voxels));
    keep_data_memory(sizeof(float) * static_cast<double>(series_.values.size()));
    read_labels();
    choose_volumes(config);
    prepare_responses();
    read_features();
    open_media(config, progress);
  }

  int64_t samples(Split split) const override { return std::ssize(volumes(split)); }

  Batch batch(const WindowOrder& order, Split split, int64_t first, int64_t count) const override {
    check(order.count() == samples(split), "the order is of another split");
    const StimuliShape& s = shape_;
    Batch batch{first, count, {}};
    batch.fields.push_back(field("frames", {count, s.video_frames, 3, s.video_size, s.video_size}, kBlack));
    batch.fields.push_back(field("mel", {count, s.audio_frames, s.audio_mels}, kMelSilence));
    batch.fields.push_back(field("words", {count, s.text_tokens, s.text_features}, 0));
    batch.fields.push_back(field("voxels", {count, s.voxels}, 0));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t volume = volumes(split)[static_cast<size_t>(order.index(first + i))];
      fill_frames(volume, numbers_of(batch.fields[0], i));
      fill_mel(volume, numbers_of(batch.fields[1], i));
      fill_words(volume, numbers_of(batch.fields[2], i));
      std::copy_n(series_.values.data() + volume * s.voxels, s.voxels, numbers_of(batch.fields[3], i));
    }
    return batch;
  }

  std::vector<Baseline> baselines(const std::vector<int64_t>&) const override {
    return {{"correlation", "training mean", 0}};
  }

  std::string name_of(Split split, int64_t index) const override {
    return fmt::format("volume {} of {}", volumes(split)[static_cast<size_t>(index)], config_.fmri.string());
  }
  std::vector<std::string> skipped() const override { return skipped_; }
  std::string never_trained() const override { return never_trained_; }

 private:
  const Volumes& volumes(Split split) const { return split == Split::train ? train_ : held_out_; }

  void read_labels() {
    if (config_.texts.empty()) {
      labels_.names = {""};
      labels_.runs = {""};
      labels_.label.assign(static_cast<size_t>(series_.volumes), 0);
      labels_.run = labels_.label;
      return;
    }
    labels_ = read_stimulus_labels(config_.texts);
    if (std::ssize(labels_.label) != series_.volumes)
      throw UserError(
          fmt::format("data.texts: {} has {} lines, and {} {} volumes; it has a line for each; the first is {}",
                      config_.texts.string(), labels_.label.size(), config_.fmri.string(), series_.volumes,
                      in_quotes(labels_.names.front() + " " + labels_.runs.front())));
    if (config_.text_embeddings.empty()) return;  // words are from data.text_features
    vectors_ = read_label_vectors(config_.text_embeddings, labels_.names);
    keep_data_memory(sizeof(float) * static_cast<double>(vectors_.size()) *
                     static_cast<double>(vectors_.front().size()));
    if (std::ssize(vectors_.front()) != shape_.text_features)
      throw UserError(
          fmt::format("data.text_embeddings: the vectors in {} have {} values, and model.text.features is {}; that of "
                      "{} begins with "
                      "{:.6g}; if these are the labels' vectors, set model.text.features: {}",
                      config_.text_embeddings.string(), vectors_.front().size(), shape_.text_features,
                      in_quotes(labels_.names.front()), vectors_.front().front(), vectors_.front().size()));
  }

  std::string file_and_mask() const {
    return config_.fmri.string() + (config_.mask.empty() ? "" : " within data.fmri_mask " + config_.mask.string());
  }

  /// Refuses voxels that are not finite in at least half of the volumes; with data.skip_bad leaves them out.
  void leave_out_voxels(const DataConfig& config) {
    const std::vector<int64_t> bad = bad_voxels(series_);
    if (bad.empty()) return;
    std::vector<std::string> names;
    for (const int64_t voxel : bad) names.push_back(series_.name_of_voxel(voxel));
    const std::string what =
        fmt::format("{}: {} of {} {} are not finite in at least half of the volumes: {}", file_and_mask(), bad.size(),
                    series_.voxels, series_.counted, few_names(names));
    const int64_t left = series_.voxels - std::ssize(bad);
    if (left == 0) throw UserError(what, UserError::Kind::failure);
    if (!config.skip_bad)
      throw UserError(fmt::format("{}; leave them out of the {}, or set data.skip_bad: true, which leaves them out; {} "
                                  "remain for model.voxels",
                                  what, config_.mask.empty() ? "file" : "mask", left),
                      UserError::Kind::failure);
    skipped_.push_back(what);
    remove_voxels(series_, bad);
  }

  void choose_volumes(const DataConfig& config) {
    const bool one = labels_.runs.size() == 1;
    RunSplit split = hold_out_last_runs(labels_, config.validation_fraction, config.test_fraction);
    if (std::ranges::find(split.part_of_run, DataPart::train) == split.part_of_run.end())
      throw UserError(
          fmt::format("data.fmri: {} has {}; data.validation_fraction {} and data.test_fraction {} leave "
                      "nothing of it to train on",
                      config_.fmri.string(), one ? "one run" : fmt::format("{} runs", labels_.runs.size()),
                      config.validation_fraction, config.test_fraction));
    find_usable(config);
    const RunSamples samples{usable_, config_.delay};
    const DataPart evaluated = config.evaluate_on == "test" ? DataPart::test : DataPart::validation;
    if (are_classes(labels_)) {
      split = cover_labels(labels_, split, samples, seed_);
      const PartLabels parts = labels_of_parts(labels_, split, samples);
      note_parts(parts, labels_.names, config_.texts);
      never_trained_ = parts.never_trained(evaluated, labels_.names);
    }
    labels_.run = split.run;
    begin_ = split.begins();
    for (int64_t v = 0; v < series_.volumes; ++v) {
      const auto at = static_cast<size_t>(v);
      if (!usable_[at] || v - begin_[at] < config_.delay) continue;  // the stimuli of its response were before the run
      const DataPart part = split.part_of(v);
      if (part == DataPart::train) train_.push_back(v);
      if (part == evaluated) held_out_.push_back(v);
    }
    if (const auto bad = std::ranges::count(usable_, 0); train_.empty() && bad > 0)
      throw UserError(
          fmt::format("data.fmri: {} has no volume to train on: {} of its {} volumes are left out for values "
                      "that are not finite; the first: {}",
                      config_.fmri.string(), bad, series_.volumes, skipped_.front()));
    if (train_.empty())
      throw UserError(
          fmt::format("data.fmri: {} has no volume to train on: runs are of {} volumes at most, and "
                      "data.fmri_delay is {}",
                      config_.fmri.string(), series_.volumes, config_.delay));
  }

  void find_usable(const DataConfig& config) {
    usable_.assign(static_cast<size_t>(series_.volumes), 1);
    for (int64_t v = 0; v < series_.volumes; ++v) {
      const float* values = series_.values.data() + v * series_.voxels;
      const float* const end = values + series_.voxels;
      const float* const bad = std::find_if(values, end, [](float value) { return !std::isfinite(value); });
      if (bad == end) continue;
      const std::string what = fmt::format("{}: volume {} has values that are not finite, the first at {}",
                                           config_.fmri.string(), v, series_.name_of_voxel(bad - values));
      if (!config.skip_bad)
        throw UserError(what + "; data.skip_bad: true leaves such volumes out", UserError::Kind::failure);
      skipped_.push_back(what);
      usable_[static_cast<size_t>(v)] = 0;
    }
  }

  void prepare_responses() {
    for (int64_t v = 0; v < series_.volumes; ++v)
      if (!usable_[static_cast<size_t>(v)])
        std::fill_n(series_.values.data() + v * series_.voxels, series_.voxels, 0.f);
    if (config_.detrend != "none") detrend(series_, labels_.run, usable_, config_.detrend == "linear");
    standardize(series_, train_);
  }

  void read_features() {
    const auto read = [&](const std::filesystem::path& file, const char* key, const std::vector<int64_t>& row) {
      return file.empty() ? StimulusFeatures() : StimulusFeatures(file, key, row, series_.volumes);
    };
    words_ = read(config_.text_features, "data.text_features", {shape_.text_features});
    sounds_ = read(config_.audio_features, "data.audio_features", {shape_.audio_mels});
    pictures_ = read(config_.pictures, "data.pictures", {shape_.video_size, shape_.video_size, 3});
  }

  void open_media(const DataConfig& config, const Progress& progress) {
    const NiftiTime& time = series_.time;
    seconds_ = config_.repetition_time > 0 ? config_.repetition_time : time.seconds;
    if (config_.videos.empty()) return;
    if (config_.repetition_time <= 0 && !time.question.empty())
      throw UserError(fmt::format("data.fmri: {}: {}", config_.fmri.string(), time.question));
    if (const std::string question = config_.repetition_time > 0 ? "" : sidecar_question(config_.fmri, time.seconds);
        !question.empty())
      throw UserError(fmt::format("data.fmri: {}: {}", config_.fmri.string(), question));
    if (config_.repetition_time <= 0 && !time.assumption.empty()) note_data(config_.fmri, time.assumption);
    if (config_.repetition_time > 0 && time.seconds > 0 &&
        std::abs(time.seconds - seconds_) > kTimeTolerance * time.seconds)
      note_data(config_.fmri,
                fmt::format("says {:.6g} seconds from volume to volume; data.repetition_time {:.6g} is used",
                            time.seconds, seconds_));
    if (!(seconds_ > 0))
      throw UserError(
          fmt::format("data.videos is given, and {} does not say how many seconds pass from volume to "
                      "volume; set data.repetition_time",
                      config_.fmri.string()));
    const double window = seconds_ * static_cast<double>(shape_.text_tokens);
    const ClipGrid grid{window / static_cast<double>(shape_.video_frames), shape_.video_size,
                        window / static_cast<double>(shape_.audio_frames), shape_.audio_mels};
    media_ = StimulusMedia(config_.videos, labels_, seconds_, grid, config.cache_dir, config.skip_bad, progress);
    skipped_.insert(skipped_.end(), media_.skipped().begin(), media_.skipped().end());
  }

  /// Returns the time, in volumes of the series, of part (0 <= part < 1) of the window of `volume`; -1: before its run.
  double time_in_window(int64_t volume, double part) const {
    const auto length = static_cast<double>(shape_.text_tokens);
    const double at = static_cast<double>(volume - config_.delay + 1) - length + part * length;  // in volumes
    return at < static_cast<double>(begin_[static_cast<size_t>(volume)]) ? -1 : at;
  }

  void fill_words(int64_t volume, float* words) const {
    if (vectors_.empty() && !words_.given()) return;
    for (int64_t i = 0; i < shape_.text_tokens; ++i) {
      const int64_t shown = volume - config_.delay - (shape_.text_tokens - 1 - i);
      if (shown < begin_[static_cast<size_t>(volume)]) continue;
      if (words_.given()) {
        const int64_t row = words_.row_at(static_cast<double>(shown));
        for (int64_t k = 0; k < shape_.text_features; ++k) words[i * shape_.text_features + k] = words_.number(row, k);
        continue;
      }
      std::ranges::copy(vectors_[static_cast<size_t>(labels_.label[static_cast<size_t>(shown)])],
                        words + i * shape_.text_features);
    }
  }

  void fill_frames(int64_t volume, float* frames) const {
    const int64_t pixels = shape_.video_size * shape_.video_size;
    std::vector<std::byte> picture(static_cast<size_t>(pixels) * 3);
    for (int64_t i = 0; i < shape_.video_frames; ++i) {
      const double at =
          time_in_window(volume, (static_cast<double>(i) + 0.5) / static_cast<double>(shape_.video_frames));
      if (pictures_.given()) {
        fill_picture(pictures_.row_at(at), frames + i * 3 * pixels);
        continue;
      }
      if (at < 0 || !media_.copy_frame(at, picture)) continue;
      float* planes = frames + i * 3 * pixels;  // separate planes for the colors, from -1 to 1
      for (int64_t p = 0; p < pixels; ++p)
        for (int64_t color = 0; color < 3; ++color)
          planes[color * pixels + p] =
              static_cast<float>(std::to_integer<int>(picture[static_cast<size_t>(p * 3 + color)])) / 127.5f - 1;
    }
  }

  /// Copies a picture: bytes are colors from 0 to 255 and are scaled, other numbers are copied.
  void fill_picture(int64_t row, float* planes) const {
    const int64_t pixels = shape_.video_size * shape_.video_size;
    for (int64_t i = 0; row >= 0 && i < pixels * 3; ++i) {
      const float number = pictures_.number(row, i);
      planes[i % 3 * pixels + i / 3] = pictures_.bytes() ? number / 127.5f - 1 : number;
    }
  }

  void fill_mel(int64_t volume, float* mel) const {
    for (int64_t i = 0; i < shape_.audio_frames; ++i) {
      const double at =
          time_in_window(volume, (static_cast<double>(i) + 0.5) / static_cast<double>(shape_.audio_frames));
      if (sounds_.given()) {
        const int64_t row = sounds_.row_at(at);
        for (int64_t k = 0; row >= 0 && k < shape_.audio_mels; ++k)
          mel[i * shape_.audio_mels + k] = sounds_.number(row, k);
        continue;
      }
      if (at < 0) continue;
      const std::span bands(mel + i * shape_.audio_mels, static_cast<size_t>(shape_.audio_mels));
      media_.copy_mel(at, std::as_writable_bytes(bands));
    }
  }

  StimuliConfig config_;
  StimuliShape shape_;
  uint64_t seed_;
  FmriSeries series_;
  StimulusLabels labels_;
  std::vector<std::vector<float>> vectors_;     // one for each label
  StimulusFeatures words_, sounds_, pictures_;  // read from files of computed features
  std::vector<char> usable_;                    // for each volume
  Volumes begin_;                               // for each volume, the first volume of its run
  Volumes train_, held_out_;
  double seconds_ = 0;  // seconds from volume to volume
  StimulusMedia media_;
  std::vector<std::string> skipped_;
  std::string never_trained_;
};

}  // namespace

std::unique_ptr<SampleSource> stimuli_samples(const DataConfig& config, const StimuliShape& shape,
                                              const Progress& progress, uint64_t seed) {
  return std::make_unique<StimuliSamples>(config, shape, progress, seed);
}

}  // namespace plimsoll
