// Declares the normalization of the channels of series by the series that are trained on.
#pragma once

#include <span>
#include <vector>

namespace plimsoll {

/// Statistics of one channel over the training series.
struct ChannelStatistics {
  double mean = 0, deviation = 1;
  float min = 0, max = 0;  ///< after normalization; 0 is among them
};

/// Returns mean and deviation of each channel over `series`, [length, channels] each, without missing values (NaN). A
/// channel of one value has that mean and a deviation of 1: sums of up to 2^29 equal float32 values are exact in
/// float64. So has a channel without values, with a mean of 0.
std::vector<ChannelStatistics> channel_statistics(const std::vector<std::span<const float>>& series, size_t channels);

/// Normalizes a series [length, channels] in place. Missing values become 0, the mean.
void normalize_channels(std::span<float> series, const std::vector<ChannelStatistics>& statistics);

/// Extends min and max by a normalized training series.
void extend_ranges(std::vector<ChannelStatistics>& statistics, std::span<const float> series);

}  // namespace plimsoll
