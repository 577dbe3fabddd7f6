#include "data/series/series_samples.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "data/parts.h"
#include "data/series/series_file.h"
#include "files/data_memory.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

struct Series {
  std::vector<float> values;    // [length, channels]
  std::vector<uint32_t> order;  // order of its vectors; empty: by time
  int64_t label = 0;
  size_t file = 0;  // index into files_
  int64_t line = 0;
};

// Parameters of the upper bound of a file's series in memory, padded to data.length.
constexpr int64_t kFilledUpFloor = GiB, kFilledUpFactor = 64;

[[noreturn]] void refuse(const std::string& what) {
  throw UserError(what, UserError::Kind::failure);
}

class SeriesSamples final : public SampleSource {
 public:
  SeriesSamples(const DataConfig& config, const SeriesShape& shape, uint64_t seed)
      : config_(config.series),
        shape_(shape),
        seed_(seed),
        vectors_(config.series.vectors()),
        skip_bad_(config.skip_bad) {
    const BadSeries bad = [&](const std::string& what) {
      if (!config.skip_bad) refuse(what + "; data.skip_bad: true leaves such series out");
      skipped_.push_back(what);
    };
    train_ = read(config.files, config_.labels, bad);
    std::array<std::vector<Series>, kDataParts> parts = deal_out(config);
    train_ = std::move(parts[static_cast<size_t>(DataPart::train)]);
    const bool test = config.evaluate_on == "test";
    const auto& files = test ? config_.test_files : config_.validation_files;
    std::vector<Series>& evaluated = parts[static_cast<size_t>(test ? DataPart::test : DataPart::validation)];
    if (!files.empty()) evaluated = read(files, test ? config_.test_labels : config_.validation_labels, bad);
    if (train_.empty()) refuse(fmt::format("{} has no series to train on", config.files.front().string()));
    PartLabels labels({.samples = "series", .label = "class"});
    for (int32_t i = 0; i < static_cast<int32_t>(classes_.size()); ++i) labels.expect(i);
    for (const Series& series : train_) labels.add(DataPart::train, static_cast<int32_t>(series.label));
    for (const DataPart part : {DataPart::validation, DataPart::test})
      for (const Series& series : parts[static_cast<size_t>(part)])
        labels.add(part, static_cast<int32_t>(series.label));
    note_parts(labels, classes_, config.files.front());
    never_trained_ = labels.never_trained(test ? DataPart::test : DataPart::validation, classes_);
    held_out_ = std::move(evaluated);
    normalize();
    if (config_.order == "hilbert") {
      for (Series& series : train_) series.order = along_the_curve(series);
      for (Series& series : held_out_) series.order = along_the_curve(series);
    }
  }

  int64_t samples(Split split) const override { return static_cast<int64_t>(of(split).size()); }

  Batch batch(const WindowOrder& order, Split split, int64_t first, int64_t count) const override {
    check(order.count() == samples(split), "the order is of another split");
    const int64_t width = shape_.channels + 1;
    Batch batch{first, count, {}};
    const auto field = [&](const char* name, DType dtype, std::vector<int64_t> sizes) {
      const int64_t numbers = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
      batch.fields.push_back(
          {name, dtype, std::move(sizes), std::vector<std::byte>(static_cast<size_t>(numbers * element_bytes(dtype)))});
    };
    field("vectors", DType::float32, {count, vectors_, width});
    field("labels", DType::int64, {count});
    auto* vectors = reinterpret_cast<float*>(batch.fields[0].bytes.data());
    auto* labels = reinterpret_cast<int64_t*>(batch.fields[1].bytes.data());
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = order.index(first + i);
      const Series& series = of(split)[static_cast<size_t>(index)];
      labels[i] = series.label;
      const auto chosen = split == Split::train ? drawn(order.epoch(first + i), index) : evenly_spaced();
      put(series, chosen, vectors + i * vectors_ * width);
    }
    return batch;
  }

  std::vector<Baseline> baselines(const std::vector<int64_t>& held_out) const override {
    if (held_out.empty()) return {};
    std::vector<int64_t> counts(static_cast<size_t>(shape_.classes));
    for (const Series& series : train_) ++counts[static_cast<size_t>(series.label)];
    const int64_t frequent = std::ranges::max_element(counts) - counts.begin();
    const auto right =
        std::ranges::count_if(held_out, [&](int64_t i) { return held_out_[static_cast<size_t>(i)].label == frequent; });
    return {{"accuracy", "most frequent class", static_cast<double>(right) / static_cast<double>(held_out.size())}};
  }

  std::string name_of(Split split, int64_t index) const override {
    const Series& series = of(split)[static_cast<size_t>(index)];
    return files_[series.file] + std::to_string(series.line);
  }
  std::vector<std::string> skipped() const override { return skipped_; }
  std::string never_trained() const override { return never_trained_; }

 private:
  const std::vector<Series>& of(Split split) const { return split == Split::train ? train_ : held_out_; }

  std::vector<Series> read(const std::vector<std::filesystem::path>& files,
                           const std::vector<std::filesystem::path>& labels, const BadSeries& bad) {
    std::vector<std::pair<std::string, TsFile>> there;
    for (size_t i = 0; i < files.size(); ++i) {
      TsFile file;
      try {
        file = read_series_file(files[i], i < labels.size() ? labels[i] : "", bad);
      } catch (const UserError& error) {
        if (!skip_bad_) throw;
        skipped_.push_back(error.what());
        continue;
      }
      const std::string name = files[i].string();
      check_channels(file, name);
      std::erase_if(file.series, [&](const TsSeries& series) {
        return !fits(series, fmt::format("{}{}{}", name, file.before_number, series.line), bad);
      });
      keep_data_memory(bytes_as_read(file));
      there.emplace_back(name, std::move(file));
    }
    std::vector<Series> all;
    if (!there.empty() && classes_.empty()) learn_classes(there);
    for (auto& [name, file] : there) {
      keep_data_memory(-bytes_as_read(file));  // each series is freed when it is padded
      const double bytes = require_room(file, name);
      keep_data_memory(bytes);
      const std::vector<int64_t> numbers = labels_of(file, name);
      for (TsSeries& series : file.series) {
        series.values.resize(static_cast<size_t>(config_.length * shape_.channels),
                             std::numeric_limits<float>::quiet_NaN());
        all.push_back(
            {std::move(series.values), {}, numbers[static_cast<size_t>(series.label)], files_.size(), series.line});
      }
      files_.push_back(name + file.before_number);
    }
    return all;
  }

  static double bytes_as_read(const TsFile& file) {
    double bytes = 0;
    for (const TsSeries& series : file.series) bytes += 4.0 * static_cast<double>(series.values.size());
    return bytes;
  }

  /// Returns the bytes of the file's series in memory. A series of one vector may be padded to many: these bytes are
  /// bounded by the file.
  double require_room(const TsFile& file, const std::string& name) const {
    std::error_code error;
    const auto there = static_cast<double>(std::filesystem::file_size(name, error));
    const double allowed = static_cast<double>(kFilledUpFloor) + kFilledUpFactor * (error ? 0 : there);
    const double bytes = 4.0 * static_cast<double>(file.series.size()) * static_cast<double>(config_.length) *
                         static_cast<double>(shape_.channels);
    if (bytes > allowed)
      refuse(fmt::format(
          "{}: its {} series take {:.0f} bytes when they are filled up to data.length {}; allowed: {:.0f} "
          "bytes, which is {} and {} for each byte of the file; set a smaller data.length, or leave the "
          "long series out",
          name, file.series.size(), bytes, config_.length, allowed, format_bytes(kFilledUpFloor), kFilledUpFactor));
    require_data_memory(
        name, fmt::format("has {} series, filled up to data.length {}", file.series.size(), config_.length), bytes);
    return bytes;
  }

  /// Returns ", the first vector is: x 1.5, y 2, ..." with the names that the file has; "" without series.
  static std::string first_vector_of(const TsFile& file) {
    if (file.series.empty()) return "";
    std::vector<std::string> values;
    for (int64_t i = 0; i < std::min(file.channels, kMaxShown); ++i) {
      const std::string number = fmt::format("{:.6g}", file.series[0].values[static_cast<size_t>(i)]);
      const bool named = i < std::ssize(file.channel_names);
      values.push_back(named ? one_line(file.channel_names[static_cast<size_t>(i)]) + " " + number : number);
    }
    return fmt::format(", the first vector is: {}{}", fmt::join(values, ", "),
                       file.channels > kMaxShown ? ", ..." : "");
  }

  void check_channels(const TsFile& file, const std::string& name) const {
    if (file.channels == 0 || file.channels == shape_.channels) return;
    const bool turned = !file.series.empty() && file.series[0].length == shape_.channels;
    refuse(
        fmt::format("{} has series of {} channels{}; model.channels is {}: set it to {} if all of these are values to "
                    "learn from{}",
                    name, file.channels, first_vector_of(file), shape_.channels, file.channels,
                    turned ? "; or are these [series, channels, vectors]? Save array.swapaxes(1, 2) then" : ""));
  }

  /// Sets the classes as the first file declares them. If it declares none, whole numbers below model.num_classes are
  /// the classes; other labels are sorted, numbers by size.
  void learn_classes(const std::vector<std::pair<std::string, TsFile>>& files) {
    const auto number_of = [](const std::string& label) -> std::optional<int64_t> {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), number);
      if (error != std::errc() || end != label.data() + label.size()) return std::nullopt;
      return number;
    };
    std::set<std::string> labels;
    for (const auto& [name, file] : files) labels.insert(file.classes.begin(), file.classes.end());
    const auto& [name, first] = files.front();
    if (first.declares_classes) {
      classes_ = first.classes;
    } else if (std::ranges::all_of(labels, [&](const std::string& label) {
                 const auto number = number_of(label);
                 return number && *number >= 0 && *number < shape_.classes && label == std::to_string(*number);
               })) {
      for (int64_t i = 0; i < shape_.classes; ++i) classes_.push_back(std::to_string(i));
    } else {
      classes_.assign(labels.begin(), labels.end());
      if (std::ranges::all_of(classes_, [&](const std::string& label) { return number_of(label).has_value(); }))
        std::ranges::sort(classes_, {}, number_of);
    }
    if (std::ssize(classes_) != shape_.classes)
      refuse(fmt::format("{} has {} classes ({}); model.num_classes is {}: set it to {} if these are classes",
                         first.declares_classes || files.size() == 1 ? name : "data.files", classes_.size(),
                         few_names(classes_), shape_.classes, classes_.size()));
  }

  /// Returns the index of each of the file's classes.
  std::vector<int64_t> labels_of(const TsFile& file, const std::string& name) {
    std::vector<int64_t> labels;
    for (const std::string& label : file.classes) {
      const auto found = std::ranges::find(classes_, label);
      if (found == classes_.end())
        refuse(fmt::format("{} has the class '{}', which {} not have", name, label,
                           file.declares_classes ? "the first of data.files does" : "data.files do"));
      labels.push_back(found - classes_.begin());
    }
    return labels;
  }

  bool fits(const TsSeries& series, const std::string& place, const BadSeries& bad) const {
    if (series.length > config_.length || (series.length < config_.length && !config_.pad)) {
      bad(fmt::format("{}: the series has {} vectors; data.length is {}: {}", place, series.length, config_.length,
                      series.length > config_.length ? "raise it, with data.pad: true for the shorter ones"
                                                     : "set data.pad: true to fill it up, or another data.length"));
      return false;
    }
    if (!config_.pad && std::ranges::any_of(series.values, [](float value) { return std::isnan(value); })) {
      bad(fmt::format("{}: the series has missing values; data.pad: true fills them up with the mean", place));
      return false;
    }
    return true;
  }

  /// Returns the series of `train_` by part: evenly spaced, or stratified by class if a part lacks one.
  std::array<std::vector<Series>, kDataParts> deal_out(const DataConfig& config) {
    // The choice of training series does not depend on evaluate_on.
    const auto all = static_cast<double>(train_.size());
    std::vector<DataPart> part_of(train_.size(), DataPart::train);
    if (config_.test_files.empty()) space_out(part_of, DataPart::test, config.test_fraction * all);
    if (config_.validation_files.empty()) space_out(part_of, DataPart::validation, config.validation_fraction * all);
    LabeledItems items;
    for (const Series& series : train_) items.add(static_cast<int32_t>(series.label));
    part_of = with_every_label(items, part_of, {}, seed_);
    std::array<std::vector<Series>, kDataParts> parts;
    for (size_t i = 0; i < train_.size(); ++i) parts[static_cast<size_t>(part_of[i])].push_back(std::move(train_[i]));
    return parts;
  }

  /// Moves `count` of the training series to `part`, evenly spaced: files are often sorted by class. Moves at least one
  /// of two if the count is above 0.
  static void space_out(std::vector<DataPart>& part_of, DataPart part, double count) {
    const auto all = static_cast<double>(std::ranges::count(part_of, DataPart::train));
    if (count > 0 && count < 1 && all > 1) count = 1;
    double i = 0;
    for (DataPart& each : part_of) {
      if (each != DataPart::train) continue;
      const double before = std::floor(i * count / all + 1e-9);
      const double after = std::floor((i + 1) * count / all + 1e-9);
      if (after > before) each = part;
      ++i;
    }
  }

  void normalize() {
    std::vector<std::span<const float>> trained;
    for (const Series& series : train_) trained.emplace_back(series.values);
    statistics_ = channel_statistics(trained, static_cast<size_t>(shape_.channels));
    for (std::vector<Series>* split : {&train_, &held_out_})
      for (Series& series : *split) normalize_channels(series.values, statistics_);
    for (const Series& series : train_) extend_ranges(statistics_, series.values);
  }

  /// Returns the order of the vectors along the Hilbert curve. Each coordinate has 2^bits steps between its extremes in
  /// the training series.
  std::vector<uint32_t> along_the_curve(const Series& series) const {
    std::vector<int64_t> axes = config_.hilbert_axes;
    if (axes.empty())
      for (int64_t axis = -1; axis < shape_.channels; ++axis) axes.push_back(axis);
    const double steps = std::ldexp(1.0, static_cast<int>(config_.hilbert_bits));
    const auto coordinate = [&](int64_t t, int64_t axis) {
      double within = static_cast<double>(t) / static_cast<double>(config_.length);
      if (axis >= 0) {
        const ChannelStatistics& s = statistics_[static_cast<size_t>(axis)];
        const float value = series.values[static_cast<size_t>(t * shape_.channels + axis)];
        within = s.max > s.min ? (double{value} - s.min) / (double{s.max} - s.min) : 0;
      }
      return static_cast<uint32_t>(std::clamp(std::floor(within * steps), 0.0, steps - 1));
    };
    std::vector<std::pair<uint64_t, uint32_t>> places;
    std::vector<uint32_t> point(axes.size());
    for (int64_t t = 0; t < config_.length; ++t) {
      std::ranges::transform(axes, point.begin(), [&](int64_t axis) { return coordinate(t, axis); });
      places.emplace_back(hilbert_index(point, config_.hilbert_bits), static_cast<uint32_t>(t));
    }
    std::ranges::sort(places);
    std::vector<uint32_t> order;
    for (const auto& [index, t] : places) order.push_back(t);
    return order;
  }

  using Chosen = std::vector<bool>;  // a series' vectors, by time

  /// Chooses by selection sampling (Knuth, volume 2, 3.4.2): any vectors_ of them are as likely as any others.
  Chosen drawn(int64_t epoch, int64_t index) const {
    Chosen chosen(static_cast<size_t>(config_.length));
    SplitMix64 stream(
        mix64(mix64(mix64(seed_ + 0x73657269u) ^ static_cast<uint64_t>(epoch)) + static_cast<uint64_t>(index)));
    auto wanted = static_cast<uint64_t>(vectors_);
    for (size_t t = 0; t < chosen.size(); ++t) {
      chosen[t] = wanted == chosen.size() - t || stream.below(chosen.size() - t) < wanted;
      wanted -= chosen[t];
    }
    return chosen;
  }
  Chosen evenly_spaced() const {
    Chosen chosen(static_cast<size_t>(config_.length));
    for (int64_t i = 0; i < vectors_; ++i)
      chosen[static_cast<size_t>((2 * i + 1) * config_.length / (2 * vectors_))] = true;
    return chosen;
  }

  void put(const Series& series, const Chosen& chosen, float* to) const {
    const auto channels = static_cast<size_t>(shape_.channels);
    const double middle = static_cast<double>(config_.length - 1) / 2;
    const double deviation = std::max(1.0, static_cast<double>(config_.length) / std::sqrt(12.0));
    for (size_t i = 0; i < chosen.size(); ++i) {
      const size_t t = series.order.empty() ? i : series.order[i];
      if (!chosen[t]) continue;
      std::copy_n(series.values.begin() + static_cast<std::ptrdiff_t>(t * channels), channels, to);
      to[channels] = static_cast<float>((static_cast<double>(t) - middle) / deviation);
      to += channels + 1;
    }
  }

  SeriesConfig config_;
  SeriesShape shape_;
  uint64_t seed_;
  int64_t vectors_;
  bool skip_bad_;
  std::vector<std::string> classes_;
  std::vector<std::string> files_;  // each with the text before the number of a series
  std::vector<Series> train_, held_out_;
  std::vector<ChannelStatistics> statistics_;  // one for each channel
  std::vector<std::string> skipped_;
  std::string never_trained_;
};

}  // namespace

std::unique_ptr<SampleSource> series_samples(const DataConfig& config, const SeriesShape& shape, uint64_t seed) {
  return std::make_unique<SeriesSamples>(config, shape, seed);
}

std::vector<ChannelStatistics> channel_statistics(const std::vector<std::span<const float>>& series, size_t channels) {
  std::vector<ChannelStatistics> statistics(channels);
  for (size_t c = 0; c < channels; ++c) {
    ChannelStatistics& s = statistics[c];
    double sum = 0, squares = 0;
    int64_t count = 0;
    const auto each = [&](const auto& visit) {
      for (const std::span<const float> values : series)
        for (size_t i = c; i < values.size(); i += channels)
          if (!std::isnan(values[i])) visit(values[i]);
    };
    each([&](float value) { sum += value, ++count; });
    s.mean = count > 0 ? sum / static_cast<double>(count) : 0;
    each([&](float value) { squares += (value - s.mean) * (value - s.mean); });
    const double deviation = count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0;
    s.deviation = deviation > 0 ? deviation : 1;
  }
  return statistics;
}

void normalize_channels(std::span<float> series, const std::vector<ChannelStatistics>& statistics) {
  for (size_t i = 0; i < series.size(); ++i) {
    const ChannelStatistics& s = statistics[i % statistics.size()];
    series[i] = std::isnan(series[i]) ? 0.0F : static_cast<float>((series[i] - s.mean) / s.deviation);
  }
}

void extend_ranges(std::vector<ChannelStatistics>& statistics, std::span<const float> series) {
  for (size_t i = 0; i < series.size(); ++i) {
    ChannelStatistics& s = statistics[i % statistics.size()];
    s.min = std::min(s.min, series[i]);
    s.max = std::max(s.max, series[i]);
  }
}

}  // namespace plimsoll
