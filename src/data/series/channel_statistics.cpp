#include "data/series/channel_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace plimsoll {

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
