#include "data/series/stimuli_samples.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace plimsoll {
namespace {

FmriSeries noise(int64_t volumes, int64_t voxels, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  FmriSeries series{volumes, voxels, 2, {}};
  for (int64_t i = 0; i < volumes * voxels; ++i) series.values.push_back(normal(random));
  return series;
}

TEST(FmriResponses, DetrendingTakesEachRunsLineOutAndNothingElse) {
  const FmriSeries pure = noise(20, 3, 1);
  FmriSeries drifting = pure, plain = pure;
  std::vector<int64_t> run(20, 0);
  std::fill(run.begin() + 12, run.end(), 1);
  for (int64_t v = 0; v < 20; ++v)
    for (int64_t i = 0; i < 3; ++i)
      drifting.values[v * 3 + i] += static_cast<float>(run[v] == 0 ? 100 + 2 * v : -7 * v + 30 * i);
  const std::vector<char> all(20, 1);
  detrend(drifting, run, all, /*line=*/true);
  detrend(plain, run, all, /*line=*/true);
  for (size_t i = 0; i < plain.values.size(); ++i) EXPECT_NEAR(drifting.values[i], plain.values[i], 1e-4);
  double sum = 0, moment = 0;  // values of a voxel in a run
  for (int64_t v = 12; v < 20; ++v) {
    sum += plain.values[v * 3 + 1];
    moment += static_cast<double>(v) * plain.values[v * 3 + 1];
  }
  EXPECT_NEAR(sum, 0, 1e-5);
  EXPECT_NEAR(moment, 0, 1e-4);
}

TEST(FmriResponses, DetrendingLeavesUnusableVolumesAlone) {
  FmriSeries series = noise(10, 2, 2);
  series.values[8] = 1e9f;
  std::vector<char> usable(10, 1);
  usable[4] = 0;
  detrend(series, std::vector<int64_t>(10, 0), usable, /*line=*/false);
  EXPECT_EQ(series.values[8], 1e9f);
  double sum = 0;
  for (int64_t v = 0; v < 10; ++v)
    if (v != 4) sum += series.values[v * 2];
  EXPECT_NEAR(sum, 0, 1e-5);
}

// Means of 0.1 over runs of other lengths round to other numbers: standardized, the steps between runs were a signal.
TEST(FmriResponses, AConstantIsNoSignalAfterDetrending) {
  constexpr int64_t volumes = 31;
  for (const bool line : {false, true}) {
    FmriSeries series = noise(volumes, 4, 5);
    std::vector<int64_t> run;
    for (int64_t v = 0; v < volumes; ++v) {
      run.push_back(v < 7 ? 0 : v < 18 ? 1 : 2);
      series.values[v * 4] = 0.1f;
      series.values[v * 4 + 1] = 1234.567f;
      if (line) series.values[v * 4 + 2] = 700.0f + 0.3f * static_cast<float>(v);
      series.values[v * 4 + 3] += 20000;  // a small signal on a high level stays
    }
    detrend(series, run, std::vector<char>(volumes, 1), line);
    Volumes all(volumes);
    std::iota(all.begin(), all.end(), 0);
    standardize(series, all);
    double signal = 0;
    for (int64_t v = 0; v < volumes; ++v) {
      EXPECT_EQ(series.values[v * 4], 0) << line;
      EXPECT_EQ(series.values[v * 4 + 1], 0) << line;
      if (line) {
        EXPECT_EQ(series.values[v * 4 + 2], 0);
      }
      signal += std::pow(series.values[v * 4 + 3], 2);
    }
    EXPECT_NEAR(signal / volumes, 1, 1e-5);
  }
}

TEST(FmriResponses, StandardizesByTheVolumesTrainedOn) {
  FmriSeries series = noise(12, 2, 3);
  for (int64_t v = 0; v < 12; ++v) series.values[v * 2 + 1] = 5;  // constant
  for (float& value : series.values) value = 3 * value + 7;
  const Volumes train = {0, 1, 2, 5, 6, 7};
  standardize(series, train);
  double sum = 0, squares = 0;
  for (int64_t v : train) {
    sum += series.values[v * 2];
    squares += series.values[v * 2] * series.values[v * 2];
  }
  EXPECT_NEAR(sum / 6, 0, 1e-6);
  EXPECT_NEAR(squares / 6, 1, 1e-5);
  for (int64_t v = 0; v < 12; ++v) EXPECT_EQ(series.values[v * 2 + 1], 0);
}

}  // namespace
}  // namespace plimsoll
