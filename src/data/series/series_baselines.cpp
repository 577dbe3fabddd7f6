#include "data/series/series_baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "data/evenly_spread.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns the sum of squared differences, or a part of it that is at least `enough`.
double euclidean_distance(std::span<const float> a, std::span<const float> b, double enough) {
  constexpr size_t kBlock = 256;  // values between two comparisons with `enough`
  double distance = 0;
  for (size_t begin = 0; begin < a.size() && distance < enough; begin += kBlock)
    for (size_t i = begin; i < std::min(begin + kBlock, a.size()); ++i) {
      const double difference = double{a[i]} - b[i];
      distance += difference * difference;
    }
  return distance;
}

/// Returns the values with mean 0 and deviation 1 in each channel; a channel that does not vary becomes 0.
std::vector<float> normalized_alone(std::span<const float> values, size_t channels) {
  std::vector<float> normalized(values.size());
  const auto count = static_cast<double>(values.size() / channels);
  for (size_t c = 0; c < channels; ++c) {
    double mean = 0, variance = 0;
    for (size_t i = c; i < values.size(); i += channels) mean += values[i] / count;
    for (size_t i = c; i < values.size(); i += channels) variance += (values[i] - mean) * (values[i] - mean) / count;
    for (size_t i = c; i < values.size() && variance > 1e-12 * mean * mean; i += channels)
      normalized[i] = static_cast<float>((values[i] - mean) / std::sqrt(variance));
  }
  return normalized;
}

/// Returns the label of the first series of `train` with the least distance(series, other, least so far).
template <typename Distance>
int64_t nearest_label(const LabeledSeries& series, const std::vector<LabeledSeries>& train, const Distance& distance) {
  int64_t label = train.front().label;
  double least = kInfinity;
  for (const LabeledSeries& other : train) {
    const double found = distance(series.values, other.values, least);
    if (found < least) least = found, label = other.label;
  }
  return label;
}

}  // namespace

double warping_distance(std::span<const float> a, std::span<const float> b, int64_t channels, int64_t band,
                        double enough) {
  check(channels > 0 && a.size() == b.size() && a.size() % static_cast<size_t>(channels) == 0,
        "series of different shapes have no warping distance");
  const int64_t length = std::ssize(a) / channels;
  // Entry j + 1 is the least sum of a path from the first pair to vector j of b and the row's vector of a.
  std::vector<double> before(static_cast<size_t>(length) + 1, kInfinity), now(before);
  before[0] = 0;
  for (int64_t i = 0; i < length; ++i) {
    const int64_t begin = std::max<int64_t>(0, i - band), end = std::min(length, i + band + 1);
    // Outside the band only these two entries are read.
    now[static_cast<size_t>(begin)] = kInfinity;
    if (end < length) now[static_cast<size_t>(end) + 1] = kInfinity;
    const float* x = a.data() + i * channels;
    double left = kInfinity, least = kInfinity;
    for (int64_t j = begin; j < end; ++j) {
      const float* y = b.data() + j * channels;
      double distance = 0;
      for (int64_t c = 0; c < channels; ++c) {
        const double difference = double{x[c]} - y[c];
        distance += difference * difference;
      }
      const auto at = static_cast<size_t>(j);
      left = distance + std::min(std::min(before[at], before[at + 1]), left);
      now[at + 1] = left;
      least = std::min(least, left);
    }
    // Every path crosses this row, and no sum falls along a path.
    if (least >= enough) return kInfinity;
    std::swap(before, now);
  }
  return before.back();
}

int64_t warping_band(int64_t pairs, int64_t length, int64_t channels) {
  for (const int64_t band : {length, length / 10}) {
    const double cells =
        static_cast<double>(length) * std::min(static_cast<double>(length), 2.0 * static_cast<double>(band) + 1);
    if (static_cast<double>(pairs) * cells * static_cast<double>(3 * channels + 4) <= kMaxWarpingOperations)
      return band;
  }
  return -1;
}

std::vector<int64_t> compared_series(int64_t train, int64_t held_out, int64_t values, double max_operations) {
  const double operations =
      3.0 * static_cast<double>(held_out) * static_cast<double>(values);  // of one training series
  if (operations * static_cast<double>(train) <= max_operations) return evenly_spread(train, train);
  if (operations > max_operations) return {};
  return evenly_spread(train, static_cast<int64_t>(max_operations / operations));
}

std::vector<Baseline> series_baselines(const std::vector<LabeledSeries>& train,
                                       const std::vector<LabeledSeries>& held_out, int64_t channels, int64_t classes,
                                       double max_euclidean_operations) {
  if (held_out.empty()) return {};
  check(!train.empty(), "baselines need a series to know");
  const auto accuracy = [&](const auto& label_of) {
    const auto right =
        std::ranges::count_if(held_out, [&](const LabeledSeries& series) { return label_of(series) == series.label; });
    return static_cast<double>(right) / static_cast<double>(held_out.size());
  };
  std::vector<int64_t> counts(static_cast<size_t>(classes));
  for (const LabeledSeries& series : train) ++counts[static_cast<size_t>(series.label)];
  const int64_t frequent = std::ranges::max_element(counts) - counts.begin();

  std::vector<Baseline> baselines;
  const auto add = [&](const std::string& name, double value) { baselines.push_back({"accuracy", name, value}); };
  std::vector<LabeledSeries> compared;
  for (const int64_t i : compared_series(std::ssize(train), std::ssize(held_out), std::ssize(train.front().values),
                                         max_euclidean_operations))
    compared.push_back(train[static_cast<size_t>(i)]);
  if (!compared.empty())
    add(compared.size() == train.size()
            ? "1-nearest neighbor"
            : fmt::format("1-nearest neighbor of {} of {} series", compared.size(), train.size()),
        accuracy([&](const LabeledSeries& series) { return nearest_label(series, compared, euclidean_distance); }));
  const int64_t length = std::ssize(train.front().values) / channels;
  const int64_t band = warping_band(2 * std::ssize(train) * std::ssize(held_out), length, channels);
  const std::string warping =
      std::string("1-nearest neighbor, time warping") + (band < length ? " within a tenth" : "");
  const auto add_warping = [&](const std::string& name, const std::vector<LabeledSeries>& known, const auto& seen) {
    add(name, accuracy([&](const LabeledSeries& series) {
          return nearest_label(seen(series), known,
                               [&](std::span<const float> a, std::span<const float> b, double enough) {
                                 return warping_distance(a, b, channels, band, enough);
                               });
        }));
  };
  if (band >= 0) {
    add_warping(warping, train, [](const LabeledSeries& series) { return series; });
    std::vector<std::vector<float>> values;
    std::vector<LabeledSeries> alone;
    for (const LabeledSeries& series : train)
      values.push_back(normalized_alone(series.values, static_cast<size_t>(channels)));
    for (size_t i = 0; i < train.size(); ++i) alone.push_back({values[i], train[i].label});
    std::vector<float> one;
    add_warping(warping + ", each normalized", alone, [&](const LabeledSeries& series) {
      one = normalized_alone(series.values, static_cast<size_t>(channels));
      return LabeledSeries{one, series.label};
    });
  }
  add("most frequent class", accuracy([&](const LabeledSeries&) { return frequent; }));
  return baselines;
}

}  // namespace plimsoll
