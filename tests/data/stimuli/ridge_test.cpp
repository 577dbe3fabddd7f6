#include "data/stimuli/ridge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <span>

#include "data/stimuli/fmri_responses.h"

namespace plimsoll {
namespace {

std::vector<float> noise(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(normal(random));
  return values;
}

TEST(RidgeWeights, AreTheClosedFormOfOneFeature) {
  // x = 1, 2, 3 and y = 2, 4, 6: the sum of xy is 28, that of xx 14.
  EXPECT_DOUBLE_EQ(ridge_weights({14}, {28}, 1, 14).at(0), 1);
  EXPECT_NEAR(ridge_weights({14}, {28}, 1, 1e-9).at(0), 2, 1e-9);
  // [[3, 1], [1, 2]] + I is [[4, 1], [1, 3]], whose inverse is [[3, -1], [-1, 4]] / 11.
  const std::vector<double> weights = ridge_weights({3, 1, 1, 2}, {11, 0, 22, 11}, 2, 1);
  const double wanted[] = {1, -1, 7, 4};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(weights[i], wanted[i], 1e-12) << i;
}

TEST(RidgeWeights, SolveTheirEquations) {
  constexpr int64_t rank = 17, targets = 5;
  const std::vector<float> root = noise(rank * rank, 1), right = noise(rank * targets, 2);
  std::vector<double> gram(rank * rank), cross(right.begin(), right.end());
  for (int64_t i = 0; i < rank; ++i)
    for (int64_t j = 0; j < rank; ++j)
      for (int64_t k = 0; k < rank; ++k) gram[i * rank + j] += double{root[i * rank + k]} * root[j * rank + k];
  const std::vector<double> weights = ridge_weights(gram, cross, rank, 0.3);
  for (int64_t i = 0; i < rank; ++i)
    for (int64_t t = 0; t < targets; ++t) {
      double sum = 0.3 * weights[i * targets + t];
      for (int64_t k = 0; k < rank; ++k) sum += gram[i * rank + k] * weights[k * targets + t];
      EXPECT_NEAR(sum, cross[i * targets + t], 1e-8);
    }
}

TEST(RidgeCoordinates, KeepDotProductsWithTheFittedRows) {
  constexpr int64_t rows = 20, fitted = 12, width = 300;
  std::vector<float> table = noise(rows * width, 3);
  // Rows 4 to 11 repeat sums of the first four.
  for (int64_t row = 4; row < fitted; ++row)
    for (int64_t i = 0; i < width; ++i)
      table[row * width + i] = table[(row % 4) * width + i] + 0.5f * table[((row / 4) % 4) * width + i];
  const auto coordinates = ridge_coordinates(table, width, fitted, 4);
  ASSERT_TRUE(coordinates.has_value());
  ASSERT_EQ(coordinates->size(), size_t{rows * 4});
  for (int64_t a = 0; a < rows; ++a)
    for (int64_t b = 0; b < fitted; ++b) {
      double wanted = 0, got = 0;
      for (int64_t i = 0; i < width; ++i) wanted += double{table[a * width + i]} * table[b * width + i];
      for (int64_t i = 0; i < 4; ++i) got += (*coordinates)[a * 4 + i] * (*coordinates)[b * 4 + i];
      EXPECT_NEAR(got, wanted, 1e-2) << a << " " << b;  // the products are about 300
    }
  EXPECT_FALSE(ridge_coordinates(table, width, fitted, 3).has_value());
  EXPECT_TRUE(ridge_coordinates(std::vector<float>(60), 3, 20, 4)->empty());
}

/// Numbers of samples in memory, as RidgeSamples reads them.
struct Numbers {
  struct Input {
    int64_t width = 0;
    std::vector<float> rows;  // [fitted + predicted, width]
  };
  int64_t fitted = 0, predicted = 0;
  std::vector<Input> inputs;
  int64_t targets = 0;
  std::vector<float> measured;  // [fitted, targets]
  std::vector<int64_t> run;

  std::optional<RidgePrediction> prediction() const {
    RidgeSamples samples{.fitted = fitted, .predicted = predicted, .targets = targets, .run = run};
    for (const Input& input : inputs)
      samples.inputs.push_back({input.width, [&input](int64_t sample, std::span<float> row) {
                                  ASSERT_EQ(std::ssize(row), input.width);
                                  std::copy_n(input.rows.begin() + sample * input.width, input.width, row.begin());
                                }});
    samples.measured = [this](int64_t sample) {
      EXPECT_LT(sample, fitted);
      return measured.data() + sample * targets;
    };
    return ridge_prediction(samples);
  }
};

/// Samples of two inputs in `runs` runs of 12, and targets that depend on them with `error`.
Numbers samples_of(int64_t runs, int64_t predicted, float error, unsigned seed) {
  Numbers samples{.fitted = runs * 12, .predicted = predicted, .targets = 4};
  const int64_t rows = samples.fitted + predicted;
  samples.inputs = {{3, noise(rows * 3, seed)}, {20, noise(rows * 20, seed + 1)}};
  for (float& value : samples.inputs[1].rows) value = 40 * value + 7;
  const std::vector<float> left = noise(samples.fitted * 4, seed + 2);
  for (int64_t row = 0; row < samples.fitted; ++row) {
    samples.run.push_back(5 + row / 12);
    for (int64_t t = 0; t < 4; ++t)
      samples.measured.push_back(samples.inputs[0].rows[row * 3 + t % 3] * 2 +
                                 samples.inputs[1].rows[row * 20 + t] / 40 + 3 + error * left[row * 4 + t]);
  }
  return samples;
}

/// Computes the regression by its dual form and Gauss's elimination: predictions of row `of` by a fit to `rows`.
std::vector<double> by_dual(const Numbers& samples, const std::vector<int64_t>& rows, int64_t of, double penalty) {
  const auto n = static_cast<double>(samples.fitted);
  std::vector<double> scale;
  for (const Numbers::Input& input : samples.inputs) {
    double variance = 0;
    for (int64_t i = 0; i < input.width; ++i) {
      double mean = 0, square = 0;
      for (int64_t row = 0; row < samples.fitted; ++row) {
        mean += input.rows[row * input.width + i] / n;
        square += double{input.rows[row * input.width + i]} * input.rows[row * input.width + i] / n;
      }
      variance += square - mean * mean;
    }
    scale.push_back(1 / variance);
  }
  // Dot products of deviations from the mean of `rows`.
  const auto product = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (size_t k = 0; k < samples.inputs.size(); ++k)
      for (int64_t i = 0; i < samples.inputs[k].width; ++i) {
        const auto value = [&](int64_t row) {
          return double{samples.inputs[k].rows[row * samples.inputs[k].width + i]};
        };
        double mean = 0;
        for (const int64_t row : rows) mean += value(row) / static_cast<double>(rows.size());
        sum += scale[k] * (value(a) - mean) * (value(b) - mean);
      }
    return sum;
  };
  const size_t count = rows.size(), targets = static_cast<size_t>(samples.targets);
  std::vector<double> mean(targets);
  for (const int64_t row : rows)
    for (size_t t = 0; t < targets; ++t) mean[t] += samples.measured[row * targets + t] / static_cast<double>(count);
  std::vector<std::vector<double>> system(count, std::vector<double>(count + targets));
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = 0; b < count; ++b) system[a][b] = product(rows[a], rows[b]) + (a == b ? penalty : 0);
    for (size_t t = 0; t < targets; ++t) system[a][count + t] = samples.measured[rows[a] * targets + t] - mean[t];
  }
  for (size_t a = 0; a < count; ++a)
    for (size_t b = 0; b < count; ++b) {
      if (a == b) continue;
      const double factor = system[b][a] / system[a][a];
      for (size_t k = a; k < count + targets; ++k) system[b][k] -= factor * system[a][k];
    }
  std::vector<double> predicted = mean;
  for (size_t a = 0; a < count; ++a)
    for (size_t t = 0; t < targets; ++t) predicted[t] += product(of, rows[a]) * system[a][count + t] / system[a][a];
  return predicted;
}

TEST(RidgePrediction, IsTheDualFormWithThePenaltyOfTheRunsLeftOut) {
  const Numbers samples = samples_of(3, 5, 1.5f, 4);
  const auto prediction = samples.prediction();
  ASSERT_TRUE(prediction.has_value());
  double best = -1, best_penalty = 0;
  for (int number = 0; number < 13; ++number) {
    const double penalty = std::pow(10.0, -2 + number / 2.0);
    double mean = 0;
    for (int64_t out = 0; out < 3; ++out) {
      std::vector<int64_t> rest, left;
      for (int64_t row = 0; row < 36; ++row) (row / 12 == out ? left : rest).push_back(row);
      VoxelCorrelation correlation(4);
      for (const int64_t row : left) {
        const std::vector<double> measured(samples.measured.begin() + row * 4, samples.measured.begin() + row * 4 + 4);
        correlation.add(by_dual(samples, rest, row, penalty), measured.data());
      }
      mean += correlation.mean() / 3;
    }
    if (mean > best) best = mean, best_penalty = penalty;
  }
  EXPECT_DOUBLE_EQ(prediction->penalty, best_penalty);
  EXPECT_NEAR(prediction->left_out_correlation, best, 1e-5);
  std::vector<int64_t> all;
  for (int64_t row = 0; row < 36; ++row) all.push_back(row);
  for (int64_t i = 0; i < 5; ++i) {
    const std::vector<double> wanted = by_dual(samples, all, 36 + i, best_penalty);
    for (size_t t = 0; t < 4; ++t) EXPECT_NEAR(prediction->values[i * 4 + t], wanted[t], 1e-4) << i << " " << t;
  }
}

TEST(RidgePrediction, ChoosesALargerPenaltyForNoisierValues) {
  const auto clear = samples_of(4, 1, 0.01f, 6).prediction(), noisy = samples_of(4, 1, 6, 6).prediction();
  ASSERT_TRUE(clear.has_value() && noisy.has_value());
  EXPECT_LT(clear->penalty, noisy->penalty);
  EXPECT_GT(clear->left_out_correlation, 0.99);
}

TEST(RidgePrediction, OfOneRunLeavesFifthsOut) {
  Numbers samples = samples_of(5, 2, 1, 8);
  const auto by_runs = samples.prediction();  // each run has 12 samples, as each fifth has
  samples.run.assign(60, 3);
  const auto by_fifths = samples.prediction();
  ASSERT_TRUE(by_runs.has_value() && by_fifths.has_value());
  EXPECT_EQ(by_runs->penalty, by_fifths->penalty);
  EXPECT_EQ(by_runs->left_out_correlation, by_fifths->left_out_correlation);
}

TEST(RidgePrediction, KeepsToItsLimits) {
  Numbers samples = samples_of(5, 2, 1, 9);
  samples.inputs = {{1000, noise(62 * 1000, 10)}};
  EXPECT_TRUE(samples.prediction().has_value());
  samples.targets = 100'000;
  samples.measured.assign(size_t{60} * 100'000, 1);
  EXPECT_FALSE(samples.prediction().has_value());  // 59 directions of 1e5 targets
  Numbers few = samples_of(1, 0, 1, 9);
  few.fitted = 4;
  few.run.resize(4);
  few.measured.resize(16);
  few.inputs = {{3, noise(12, 1)}};
  EXPECT_FALSE(few.prediction().has_value());
}

// The mean of -1 over 708 rows is not -1 in floating point; the rounding error has no scale.
TEST(RidgePrediction, LeavesConstantColumnsOut) {
  Numbers samples = samples_of(59, 2, 6, 11);
  const auto without = samples.prediction();
  std::vector<float> constant(710, -1);
  constant[708] = constant[709] = 0;
  samples.inputs.push_back({1, constant});
  const auto alone = samples.prediction();
  // The same column next to columns that vary.
  samples.inputs.pop_back();
  Numbers::Input& input = samples.inputs[0];
  const std::vector<float> three = input.rows;
  input = {4, {}};
  for (size_t row = 0; row < 710; ++row) {
    input.rows.insert(input.rows.end(), three.begin() + row * 3, three.begin() + row * 3 + 3);
    input.rows.push_back(constant[row]);
  }
  const auto inside = samples.prediction();
  ASSERT_TRUE(without.has_value() && alone.has_value() && inside.has_value());
  for (const auto* with : {&*alone, &*inside}) {
    EXPECT_EQ(with->penalty, without->penalty);
    for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(with->values[i], without->values[i], 1e-4) << i;
  }
}

// Sizes alone show that a limit would be exceeded: nothing is read, and no table is allocated.
TEST(RidgePrediction, ReadsNothingThatIsTooLarge) {
  const auto refused = [](const std::vector<int64_t>& widths, int64_t targets) {
    RidgeSamples samples{.fitted = 60, .predicted = 2, .targets = targets, .run = std::vector<int64_t>(60)};
    bool has_read = false;
    for (const int64_t width : widths)
      samples.inputs.push_back({width, [&](int64_t, std::span<float>) { has_read = true; }});
    samples.measured = [&](int64_t) -> const float* {
      ADD_FAILURE() << "measured values were read";
      return nullptr;
    };
    return !ridge_prediction(samples).has_value() && !has_read;
  };
  EXPECT_TRUE(refused({1'100'000}, 4));                  // 62 rows of 4 bytes a number: 260 MiB
  EXPECT_TRUE(refused({400'000, 400'000, 300'000}, 4));  // together
  EXPECT_TRUE(refused({int64_t{1} << 62, int64_t{1} << 62, int64_t{1} << 62}, 4));
  EXPECT_TRUE(refused({3}, 3'000'000));  // sums: 112 bytes a target with one direction
  EXPECT_TRUE(refused({3}, int64_t{1} << 40));
}

}  // namespace
}  // namespace plimsoll
