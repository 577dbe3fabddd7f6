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
constexpr int64_t kParts = 5;  // parts of a single run

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

/// Returns the concatenated inputs, each with mean 0 and a sum of variances of 1 over the fitted samples.
std::vector<float> scaled_table(const RidgeSamples& samples, int64_t width) {
  const int64_t rows = samples.fitted + samples.predicted;
  std::vector<float> table(static_cast<size_t>(rows * width));
  int64_t column = 0;
  for (const RidgeInput& input : samples.inputs) {
    const auto value = [&](int64_t row, int64_t i) {
      return double{input.rows[static_cast<size_t>(row * input.width + i)]};
    };
    const auto count = static_cast<double>(samples.fitted);
    std::vector<double> mean(static_cast<size_t>(input.width));
    for (int64_t row = 0; row < samples.fitted; ++row)
      for (int64_t i = 0; i < input.width; ++i) mean[static_cast<size_t>(i)] += value(row, i) / count;
    double variance = 0;
    for (int64_t row = 0; row < samples.fitted; ++row)
      for (int64_t i = 0; i < input.width; ++i) {
        const double deviation = value(row, i) - mean[static_cast<size_t>(i)];
        variance += deviation * deviation / count;
      }
    const double scale = variance > 0 ? 1 / std::sqrt(variance) : 0;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < input.width; ++i)
        table[static_cast<size_t>(row * width + column + i)] =
            static_cast<float>((value(row, i) - mean[static_cast<size_t>(i)]) * scale);
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

/// Coordinates and measured values of all samples, as inputs of the regression.
class Regression {
 public:
  Regression(const RidgeSamples& samples, std::vector<double> coordinates, int64_t rank)
      : rank_(rank),
        targets_(samples.targets),
        coordinates_(std::move(coordinates)),
        measured_(samples.measured.begin(), samples.measured.end()),
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
      for (const int64_t row : rows) correlation.add(predicted(rest, weights, row), measured_.data() + row * targets_);
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
  Moments moments_of(const std::vector<int64_t>& rows) const {
    Moments moments(rank_, targets_);
    for (const int64_t row : rows) moments.add(coordinates_.data() + row * rank_, measured_.data() + row * targets_);
    return moments;
  }
  std::vector<double> predicted(const Moments& centered, const std::vector<double>& weights, int64_t row) const {
    std::vector<double> values = centered.y;
    for (int64_t i = 0; i < rank_; ++i)
      add_row(values, coordinates_[static_cast<size_t>(row * rank_ + i)] - centered.z[static_cast<size_t>(i)],
              weights.data() + i * targets_);
    return values;
  }

  int64_t rank_, targets_;
  std::vector<double> coordinates_, measured_;
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
  // Each fitted row's square less its part in the pivots so far.
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
  const int64_t rows = samples.fitted + samples.predicted;
  int64_t width = 0;
  for (const RidgeInput& input : samples.inputs) {
    check(std::ssize(input.rows) == rows * input.width, "an input of a ridge regression has not a row for each sample");
    width += input.width;
  }
  check(std::ssize(samples.measured) == samples.fitted * samples.targets && std::ssize(samples.run) == samples.fitted,
        "the measured values of a ridge regression are not those of its samples");
  if (samples.fitted < kParts || width == 0 || width > kMaxRidgeNumbers / rows) return std::nullopt;
  const double operations_of_rank = 2.0 * static_cast<double>(rows) * static_cast<double>(width);
  const auto max_rank =
      std::min<int64_t>(kMaxRidgeRank, static_cast<int64_t>(kMaxRidgeOperations / operations_of_rank));
  const auto coordinates = ridge_coordinates(scaled_table(samples, width), width, samples.fitted, max_rank);
  if (!coordinates) return std::nullopt;
  const int64_t rank = std::ssize(*coordinates) / rows;
  const std::vector<std::vector<int64_t>> parts = left_out_rows(samples);
  const auto r = static_cast<double>(rank), targets = static_cast<double>(samples.targets);
  const double fits = static_cast<double>(std::ssize(parts)) * kPenalties;
  if (fits * r * r * (r / 3 + 2 * targets) + 2 * static_cast<double>(samples.fitted) * r * targets * (kPenalties + 2) >
      kMaxRidgeOperations)
    return std::nullopt;

  const Regression regression(samples, *coordinates, rank);
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
