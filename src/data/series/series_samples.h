// Declares labeled series as samples: normalized, subsampled, in the order of time or along a Hilbert curve.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/batch.h"
#include "plimsoll/sample_data.h"

namespace plimsoll {

/// The shape of a series as a model's inputs.
struct SeriesShape {
  int64_t channels = 0;
  int64_t classes = 0;
};

/// Returns the series of config.files, and the held-out series: those of config.series.validation_files or, without
/// these, the share config.validation_fraction, evenly spaced. The test series follow test_files and test_fraction in
/// the same way. If evenly spaced series leave a part without a class that has room there, the series are divided by
/// with_every_label() (data/parts.h). Notes name the classes that a part lacks. Split::validation is the
/// part that config.evaluate_on names; files of the other part are not read. Channels have mean 0 and deviation 1 over
/// the training series.
///
/// A sample is "vectors", float32 [V, channels + 1] with V = config.series.vectors(), and "labels", int64. The last
/// number of a vector is its time (mean 0, deviation 1 over a whole series). In training, the choice of the V vectors
/// depends on the seed, the epoch and the series alone; in held-out series they are evenly spaced. Throws UserError
/// for unreadable files and series that are not of that shape.
std::unique_ptr<SampleSource> series_samples(const DataConfig& config, const SeriesShape& shape, uint64_t seed);

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

/// Maximum number of coordinates x bits of an index.
constexpr int64_t kMaxHilbertBits = 64;

/// Returns the position of the point on the curve through [0, 2^bits)^n, from 0 to 2^(n x bits) - 1. n is point.size();
/// n x bits is at most kMaxHilbertBits and bits at most 31. `point` is overwritten.
inline uint64_t hilbert_index(std::span<uint32_t> point, int64_t bits) {
  const uint32_t top = uint32_t{1} << (bits - 1);
  // Undo the rotations and reflections of the sub-cubes, from the largest down.
  for (uint32_t q = top; q > 1; q >>= 1) {
    const uint32_t below = q - 1;
    for (uint32_t& x : point) {
      if (x & q) {
        point[0] ^= below;
      } else {
        const uint32_t swapped = (point[0] ^ x) & below;
        point[0] ^= swapped;
        x ^= swapped;
      }
    }
  }
  for (size_t i = 1; i < point.size(); ++i) point[i] ^= point[i - 1];  // Gray code
  uint32_t flipped = 0;
  for (uint32_t q = top; q > 1; q >>= 1)
    if (point.back() & q) flipped ^= q - 1;
  uint64_t index = 0;
  for (int64_t bit = bits; bit-- > 0;)
    for (uint32_t x : point) index = index << 1 | (((x ^ flipped) >> bit) & 1);
  return index;
}

}  // namespace plimsoll
