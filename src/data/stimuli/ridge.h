// Declares ridge regression from the inputs of samples to their measured values, without libtorch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace plimsoll {

/// One input, a row of numbers for each sample.
struct RidgeInput {
  int64_t width = 0;
  /// Writes all `width` numbers of a sample. Each sample is read at most once.
  std::function<void(int64_t sample, std::span<float> row)> read;
};

/// Samples by number: first those that the regression is fitted to, then those that it predicts.
struct RidgeSamples {
  int64_t fitted = 0, predicted = 0;
  std::vector<RidgeInput> inputs;
  int64_t targets = 0;
  std::function<const float*(int64_t sample)> measured;  ///< [targets], of a fitted sample
  std::vector<int64_t> run;                              ///< run of each fitted sample
};

struct RidgePrediction {
  double penalty = 0;
  double left_out_correlation = 0;  ///< correlation on left-out runs, from ridge_prediction()
  std::vector<float> values;        ///< [predicted, targets]
};

/// Upper bounds: bytes that a regression holds (the table of all inputs, coordinates, sums of products, predictions);
/// independent directions of the table's rows; arithmetic operations (about ten seconds on one core).
inline constexpr double kMaxRidgeBytes = 256.0 * 1024 * 1024;
inline constexpr int64_t kMaxRidgeRank = 512;
inline constexpr double kMaxRidgeOperations = 3e10;

/// Returns the predictions of the ridge regression with an intercept, which minimizes the sum of squared errors plus
/// penalty x the sum of squared weights. Every input has mean 0 over the fitted samples, and is scaled so that the sum
/// of the variances of its columns is 1: inputs of many columns do not outweigh those of few. Columns that are constant
/// over the fitted samples are left out. The penalty is one of 10^-2, 10^-1.5, ..., 10^4: that with the highest
/// correlation (VoxelCorrelation) on a run that is left out of the fit, as the mean over the runs. If all samples are
/// of one run, its fifths are used as runs. Only the inputs of the predicted samples are read. Returns none if a limit
/// would be exceeded or fewer than 5 samples are fitted. Reads no sample if even one direction exceeds a limit.
std::optional<RidgePrediction> ridge_prediction(const RidgeSamples& samples);

/// Returns the weights [rank, targets] that solve (gram + penalty I) weights = cross by Cholesky's factors. `gram` is
/// [rank, rank], symmetric and positive semidefinite; `penalty` is above 0.
std::vector<double> ridge_weights(std::vector<double> gram, std::vector<double> cross, int64_t rank, double penalty);

/// Returns coordinates [rows, rank] with the dot products that rows of `table` [rows, width] have with its first
/// `fitted` rows; rank is that of these. They are the rows of Cholesky's factor of the dot products, with pivots.
/// Returns none if the rank is above `max_rank`.
std::optional<std::vector<double>> ridge_coordinates(const std::vector<float>& table, int64_t width, int64_t fitted,
                                                     int64_t max_rank);

}  // namespace plimsoll
