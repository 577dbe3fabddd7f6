// Declares baselines of a classifier of series: the accuracies that are reached without learning.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "data/sample_source.h"

namespace plimsoll {

/// A whole series for the baselines: all of its vectors in the order of time, also if a sample has only a part.
struct LabeledSeries {
  std::span<const float> values;  ///< normalized, [length, channels]
  int64_t label = 0;
};

/// Upper bound of the arithmetic operations of the baselines by time warping: about ten seconds on one core.
inline constexpr double kMaxWarpingOperations = 1e10;

/// Upper bound of the arithmetic operations of the baseline by Euclidean distance: about ten seconds on one core.
inline constexpr double kMaxEuclideanOperations = 1e10;

/// Returns the training series, evenly spread over `train`, that are compared with each of `held_out` series of
/// `values` numbers, so that the operations (3 for each pair of numbers) are at most `max_operations`. None if even one
/// exceeds them.
std::vector<int64_t> compared_series(int64_t train, int64_t held_out, int64_t values,
                                     double max_operations = kMaxEuclideanOperations);

/// Returns the distance of two series of one length by dependent dynamic time warping (DTW_D of Shokoohi-Yekta and
/// others, 2017): the least sum of squared Euclidean distances between vectors that one path over all channels pairs.
/// The path goes from the first pair to the last in steps of at most 1 in each series, and leaves the diagonal by at
/// most `band` vectors (Sakoe and Chiba, 1978). Abandons early: if the distance is at least `enough`, returns infinity
/// or the distance.
double warping_distance(std::span<const float> a, std::span<const float> b, int64_t channels, int64_t band,
                        double enough = std::numeric_limits<double>::infinity());

/// Returns the band for this number of pairs of series. It is the whole length, as in the published results of DTW_D
/// (Bagnall and others, 2018), if the operations are at most kMaxWarpingOperations. Else it is a tenth of the length
/// (Ratanamahatana and Keogh, 2004) if they are then; else -1.
int64_t warping_band(int64_t pairs, int64_t length, int64_t channels);

/// Returns the accuracies on `held_out` of classifiers that know only `train`, in this order: 1-nearest neighbor by
/// Euclidean distance; by warping_distance(); by the same with mean 0 and deviation 1 in each channel of each series,
/// as in the published results; the most frequent class. The first knows compared_series() of `train`; its name says
/// how many if they are not all ("1-nearest neighbor of 4096 of 1000000 series"), and it is left out if there are none.
/// The two by warping have warping_band() for the pairs of both, and are left out if that is -1. All series have one
/// length; `train` is not empty. None if nothing is held out.
std::vector<Baseline> series_baselines(const std::vector<LabeledSeries>& train,
                                       const std::vector<LabeledSeries>& held_out, int64_t channels, int64_t classes,
                                       double max_euclidean_operations = kMaxEuclideanOperations);

}  // namespace plimsoll
