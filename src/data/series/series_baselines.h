// Baselines of a classifier of series: the accuracy that is reached without learning.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "data/sample_source.h"

namespace plimsoll {

/// A whole series as the baselines see it: all of its vectors in the order of time, also if a sample has only a part.
struct LabeledSeries {
  std::span<const float> values;  ///< normalized, [length, channels]
  int64_t label = 0;
};

/// Upper limit of the arithmetic operations of the baselines by time warping: about ten seconds on one core.
inline constexpr double kMaxWarpingOperations = 1e10;

/// Returns the distance of two series of one length by dependent dynamic time warping (DTW_D of Shokoohi-Yekta and
/// others, 2017): the least sum of squared Euclidean distances between vectors that one path over all channels pairs.
/// The path goes from the first pair to the last in steps of at most 1 in each series, and leaves the diagonal by at
/// most `band` vectors (Sakoe and Chiba, 1978). Abandons early: if the distance is at least `enough`, returns infinity
/// or the distance.
double warping_distance(std::span<const float> a, std::span<const float> b, int64_t channels, int64_t band,
                        double enough = std::numeric_limits<double>::infinity());

/// Returns the band for that many pairs of series: the whole length, as in the published results of DTW_D (Bagnall and
/// others, 2018), if the operations are at most kMaxWarpingOperations; else a tenth of the length (Ratanamahatana and
/// Keogh, 2004) if they are then; else -1.
int64_t warping_band(int64_t pairs, int64_t length, int64_t channels);

/// Returns the accuracies on `held_out` of classifiers that know only `train`, in this order: 1-nearest neighbor by
/// Euclidean distance; by warping_distance(); by the same with mean 0 and deviation 1 in each channel of each series,
/// as in the published results; the most frequent class. The two by warping have warping_band() for the pairs of both,
/// and are left out if that is -1. All series have one length; `train` is not empty. None if nothing is held out.
std::vector<Baseline> series_baselines(const std::vector<LabeledSeries>& train,
                                       const std::vector<LabeledSeries>& held_out, int64_t channels, int64_t classes);

}  // namespace plimsoll
