#include "data/stimuli/ridge.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "data/stimuli/fmri_responses.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int kPenalties = 13;
constexpr int64_t kParts = 5;                // parts of a single run
constexpr double kConstantVariance = 1e-12;  // a column with a smaller share of variance in its mean square is constant

double penalty_of(int number) {
  return std::pow(10.0, -2 + 0.5 * number);
}

double dot(const float* a, const float* b, int64_t width) {
  constexpr int64_t kBlock = 256, kSums = 8;
  double total = 0;
  for (int64_t begin = 0; begin < width; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, width);
    float sums[kSums] = {};  // separate sums, so that they can be added at the same time
    int64_t i = begin;
    for (; i + kSums <= end; i += kSums)
      for (int64_t k = 0; k < kSums; ++k) sums[k] += a[i + k] * b[i + k];
    for (; i < end; ++i) sums[0] += a[i] * b[i];
    for (const float sum : sums) total += double{sum};
  }
  return total;
}

/// Computes to += factor * from.
void add_row(std::span<double> to, double factor, const double* from) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
}

/// Returns the concatenated inputs, each with mean 0 and a sum of variances of 1 over the fitted samples. Columns that
/// are constant over these are 0 in all rows.
std::vector<float> scaled_table(const RidgeSamples& samples, int64_t width) {
  const int64_t rows = samples.fitted + samples.predicted;
  const auto count = static_cast<double>(samples.fitted);
  std::vector<float> table(static_cast<size_t>(rows * width));
  int64_t column = 0;
  for (const RidgeInput& input : samples.inputs) {
    const auto row_of = [&](int64_t row) {
      return std::span(table).subspan(static_cast<size_t>(row * width + column), static_cast<size_t>(input.width));
    };
    std::vector<double> mean(static_cast<size_t>(input.width));
    for (int64_t row = 0; row < rows; ++row) {
      const std::span<float> values = row_of(row);
      input.read(row, values);
      for (size_t i = 0; i < mean.size() && row < samples.fitted; ++i) mean[i] += double{values[i]} / count;
    }
    std::vector<double> variance(mean.size());
    for (int64_t row = 0; row < samples.fitted; ++row) {
      const std::span<const float> values = row_of(row);
      for (size_t i = 0; i < mean.size(); ++i) {
        const double deviation = double{values[i]} - mean[i];
        variance[i] += deviation * deviation / count;
      }
    }
    // The rounding error of a constant is no scale for the values of predicted rows.
    double total = 0;
    for (size_t i = 0; i < mean.size(); ++i) {
      if (variance[i] <= kConstantVariance * (mean[i] * mean[i] + variance[i])) variance[i] = 0;
      total += variance[i];
    }
    const double scale = total > 0 ? 1 / std::sqrt(total) : 0;
    for (int64_t row = 0; row < rows; ++row) {
      const std::span<float> values = row_of(row);
      for (size_t i = 0; i < mean.size(); ++i)
        values[i] = variance[i] > 0 ? static_cast<float>((double{values[i]} - mean[i]) * scale) : 0;
    }
    column += input.width;
  }
  return table;
}

/// Sums over samples, from which a regression on these samples follows.
struct Moments {
  int64_t rank, targets;
  double count = 0;
  std::vector<double> z, y, zz, zy;  // [rank], [targets], [rank, rank], [rank, targets]

  Moments(int64_t rank, int64_t targets)
      : rank(rank),
        targets(targets),
        z(static_cast<size_t>(rank)),
        y(static_cast<size_t>(targets)),
        zz(static_cast<size_t>(rank * rank)),
        zy(static_cast<size_t>(rank * targets)) {}

  void add(const double* coordinates, const double* measured) {
    ++count;
    add_row(z, 1, coordinates);
    add_row(y, 1, measured);
    for (int64_t i = 0; i < rank; ++i) {
      const auto at = static_cast<size_t>(i);
      add_row({zz.data() + i * rank, static_cast<size_t>(rank)}, coordinates[at], coordinates);
      add_row({zy.data() + i * targets, static_cast<size_t>(targets)}, coordinates[at], measured);
    }
  }
  void subtract(const Moments& other) {
    count -= other.count;
    add_row(z, -1, other.z.data());
    add_row(y, -1, other.y.data());
    add_row(zz, -1, other.zz.data());
    add_row(zy, -1, other.zy.data());
  }
  /// Converts the sums of products to those of the deviations from the means; z and y become the means.
  void center() {
    for (double& each : z) each /= count;
    for (double& each : y) each /= count;
    for (int64_t i = 0; i < rank; ++i) {
      const double factor = -count * z[static_cast<size_t>(i)];
      add_row({zz.data() + i * rank, static_cast<size_t>(rank)}, factor, z.data());
      add_row({zy.data() + i * targets, static_cast<size_t>(targets)}, factor, y.data());
    }
  }
};

/// Coordinates of all samples, as inputs of the regression. `samples` must outlive it.
class Regression {
 public:
  Regression(const RidgeSamples& samples, std::vector<double> coordinates, int64_t rank)
      : samples_(samples),
        rank_(rank),
        targets_(samples.targets),
        coordinates_(std::move(coordinates)),
        all_(moments_of(all_rows(samples.fitted))) {}

  /// Returns the correlation on `rows`, which are left out of the fit, for each penalty.
  std::vector<double> left_out_correlations(const std::vector<int64_t>& rows) const {
    Moments rest = all_;
    rest.subtract(moments_of(rows));
    rest.center();
    std::vector<double> correlations;
    for (int number = 0; number < kPenalties; ++number) {
      const std::vector<double> weights = ridge_weights(rest.zz, rest.zy, rank_, penalty_of(number));
      VoxelCorrelation correlation(targets_);
      for (const int64_t row : rows) correlation.add(predicted(rest, weights, row), measured(row).data());
      correlations.push_back(correlation.mean());
    }
    return correlations;
  }

  /// Returns the predictions of the rows [first, end) by a fit to all.
  std::vector<float> predictions(double penalty, int64_t first, int64_t end) const {
    Moments all = all_;
    all.center();
    const std::vector<double> weights = ridge_weights(all.zz, all.zy, rank_, penalty);
    std::vector<float> values;
    values.reserve(static_cast<size_t>((end - first) * targets_));
    for (int64_t row = first; row < end; ++row)
      for (const double value : predicted(all, weights, row)) values.push_back(static_cast<float>(value));
    return values;
  }

 private:
  static std::vector<int64_t> all_rows(int64_t count) {
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < count; ++row) rows.push_back(row);
    return rows;
  }
  std::vector<double> measured(int64_t row) const {
    const float* values = samples_.measured(row);
    return {values, values + targets_};
  }
  Moments moments_of(const std::vector<int64_t>& rows) const {
    Moments moments(rank_, targets_);
    for (const int64_t row : rows) moments.add(coordinates_.data() + row * rank_, measured(row).data());
    return moments;
  }
  std::vector<double> predicted(const Moments& centered, const std::vector<double>& weights, int64_t row) const {
    std::vector<double> values = centered.y;
    for (int64_t i = 0; i < rank_; ++i)
      add_row(values, coordinates_[static_cast<size_t>(row * rank_ + i)] - centered.z[static_cast<size_t>(i)],
              weights.data() + i * targets_);
    return values;
  }

  const RidgeSamples& samples_;
  int64_t rank_, targets_;
  std::vector<double> coordinates_;
  Moments all_;
};

std::vector<std::vector<int64_t>> left_out_rows(const RidgeSamples& samples) {
  std::map<int64_t, std::vector<int64_t>> rows;
  const bool one = std::ranges::count(samples.run, samples.run.front()) == samples.fitted;
  for (int64_t row = 0; row < samples.fitted; ++row)
    rows[one ? row * kParts / samples.fitted : samples.run[static_cast<size_t>(row)]].push_back(row);
  std::vector<std::vector<int64_t>> parts;
  for (auto& [run, of_run] : rows) parts.push_back(std::move(of_run));
  return parts;
}

/// Returns the largest number of directions, at most kMaxRidgeRank, with which a regression on `parts` left-out parts
/// keeps to kMaxRidgeBytes and kMaxRidgeOperations; 0 if one direction exceeds them.
int64_t max_rank(const RidgeSamples& samples, double width, int64_t parts) {
  const auto fitted = static_cast<double>(samples.fitted), targets = static_cast<double>(samples.targets);
  const auto predicted = static_cast<double>(samples.predicted);
  const double rows = fitted + predicted, fits = static_cast<double>(parts) * kPenalties;
  const auto fits_limits = [&](double rank) {
    // The columns and the rows of the coordinates exist at the same time as the table.
    const double making = 4 * rows * width + 16 * width + 16 * rows * (rank + 1);
    // Three sets of sums: those of all samples, those without a part, and the part's or the equations and weights.
    const double fitting =
        8 * rows * rank + 24 * (rank + 1) * (rank + targets) + 64 * targets + 4 * predicted * targets;
    const double operations =
        fits * rank * rank * (rank / 3 + 2 * targets) + 2 * fitted * rank * targets * (kPenalties + 2);
    return std::max(making, fitting) <= kMaxRidgeBytes && 2 * rows * width * rank <= kMaxRidgeOperations &&
           operations <= kMaxRidgeOperations;
  };
  int64_t rank = kMaxRidgeRank;
  while (rank > 0 && !fits_limits(static_cast<double>(rank))) --rank;
  return rank;
}

}  // namespace

std::vector<double> ridge_weights(std::vector<double> gram, std::vector<double> cross, int64_t rank, double penalty) {
  const int64_t targets = rank > 0 ? std::ssize(cross) / rank : 0;
  const auto factor = [&](int64_t i, int64_t j) -> double& { return gram[static_cast<size_t>(i * rank + j)]; };
  const auto row = [&](int64_t i) {
    return std::span(cross).subspan(static_cast<size_t>(i * targets), static_cast<size_t>(targets));
  };
  for (int64_t i = 0; i < rank; ++i) {
    factor(i, i) += penalty;
    for (int64_t j = 0; j <= i; ++j) {
      double left = factor(i, j);
      for (int64_t k = 0; k < j; ++k) left -= factor(i, k) * factor(j, k);
      factor(i, j) = i == j ? std::sqrt(left) : left / factor(j, j);
    }
    check(factor(i, i) > 0, "the matrix of a ridge regression is not positive");
    for (int64_t k = 0; k < i; ++k) add_row(row(i), -factor(i, k), row(k).data());
    for (double& each : row(i)) each /= factor(i, i);
  }
  for (int64_t i = rank; i-- > 0;) {
    for (int64_t k = i + 1; k < rank; ++k) add_row(row(i), -factor(k, i), row(k).data());
    for (double& each : row(i)) each /= factor(i, i);
  }
  return cross;
}

std::optional<std::vector<double>> ridge_coordinates(const std::vector<float>& table, int64_t width, int64_t fitted,
                                                     int64_t max_rank) {
  const int64_t rows = width > 0 ? std::ssize(table) / width : 0;
  const auto row_of = [&](int64_t row) { return table.data() + row * width; };
  // The squared length of each fitted row, less its part in the pivots so far.
  std::vector<double> left;
  for (int64_t row = 0; row < fitted; ++row) left.push_back(dot(row_of(row), row_of(row), width));
  const double least = fitted > 0 ? 1e-6 * *std::ranges::max_element(left) : 0;  // above float32's rounding error
  std::vector<std::vector<double>> columns;
  for (;;) {
    const auto largest = fitted > 0 ? std::ranges::max_element(left) : left.end();
    if (largest == left.end() || *largest <= least) break;
    if (std::ssize(columns) == max_rank) return std::nullopt;
    const auto pivot = static_cast<size_t>(largest - left.begin());
    std::vector<double> column(static_cast<size_t>(rows));
    for (int64_t row = 0; row < rows; ++row)
      column[static_cast<size_t>(row)] = dot(row_of(row), row_of(static_cast<int64_t>(pivot)), width);
    for (const std::vector<double>& before : columns) add_row(column, -before[pivot], before.data());
    const double root = std::sqrt(*largest);
    for (double& each : column) each /= root;
    for (size_t row = 0; row < left.size(); ++row) left[row] = std::max(0.0, left[row] - column[row] * column[row]);
    left[pivot] = 0;
    columns.push_back(std::move(column));
  }
  std::vector<double> coordinates(columns.size() * static_cast<size_t>(rows));
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row)
    for (size_t i = 0; i < columns.size(); ++i) coordinates[row * columns.size() + i] = columns[i][row];
  return coordinates;
}

std::optional<RidgePrediction> ridge_prediction(const RidgeSamples& samples) {
  check(std::ssize(samples.run) == samples.fitted, "a ridge regression needs the run of each fitted sample");
  double numbers = 0;  // in a row; int64_t might overflow
  for (const RidgeInput& input : samples.inputs) numbers += static_cast<double>(input.width);
  if (samples.fitted < kParts || numbers == 0) return std::nullopt;
  const std::vector<std::vector<int64_t>> parts = left_out_rows(samples);
  const int64_t most = max_rank(samples, numbers, std::ssize(parts));
  if (most == 0) return std::nullopt;
  const auto width = static_cast<int64_t>(numbers);
  std::optional<std::vector<double>> coordinates =
      ridge_coordinates(scaled_table(samples, width), width, samples.fitted, most);
  if (!coordinates) return std::nullopt;
  const int64_t rows = samples.fitted + samples.predicted, rank = std::ssize(*coordinates) / rows;
  const Regression regression(samples, std::move(*coordinates), rank);
  std::vector<double> sums(kPenalties);
  for (const std::vector<int64_t>& part : parts) add_row(sums, 1, regression.left_out_correlations(part).data());
  const auto best = std::ranges::max_element(sums) - sums.begin();
  RidgePrediction prediction;
  prediction.penalty = penalty_of(static_cast<int>(best));
  prediction.left_out_correlation = sums[static_cast<size_t>(best)] / static_cast<double>(parts.size());
  prediction.values = regression.predictions(prediction.penalty, samples.fitted, rows);
  return prediction;
}

}  // namespace plimsoll
