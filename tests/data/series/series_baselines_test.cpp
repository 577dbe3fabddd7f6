#include "data/series/series_baselines.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace plimsoll {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<float> noise(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(normal(random));
  return values;
}

/// Returns the least sum over all paths from (i, j) to the last pair, computed for each path separately.
double least_path(const std::vector<float>& a, const std::vector<float>& b, int64_t channels, int64_t band, int64_t i,
                  int64_t j) {
  const int64_t length = std::ssize(a) / channels;
  if (i >= length || j >= length || std::abs(i - j) > band) return kInfinity;
  double here = 0;
  for (int64_t c = 0; c < channels; ++c)
    here += std::pow(double{a[static_cast<size_t>(i * channels + c)]} - b[static_cast<size_t>(j * channels + c)], 2);
  if (i == length - 1 && j == length - 1) return here;
  return here + std::min({least_path(a, b, channels, band, i + 1, j), least_path(a, b, channels, band, i, j + 1),
                          least_path(a, b, channels, band, i + 1, j + 1)});
}

TEST(WarpingDistance, IsThatOfPathsWorkedOutByHand) {
  const std::vector<float> late = {0, 0, 1}, early = {0, 1, 1};
  EXPECT_EQ(warping_distance(late, early, 1, 3), 0);
  EXPECT_EQ(warping_distance(late, early, 1, 1), 0);
  EXPECT_EQ(warping_distance(late, early, 1, 0), 1);  // without warping
  EXPECT_EQ(warping_distance(std::vector<float>{2}, std::vector<float>{5}, 1, 1), 9);
  // Either channel alone warps to 0, in opposite directions; one path for both does not.
  const std::vector<float> a = {0, 0, 0, 1, 1, 1, 1, 1}, b = {0, 0, 1, 0, 1, 1, 1, 1};
  EXPECT_EQ(warping_distance(a, b, 2, 4), 2);
}

TEST(WarpingDistance, IsTheLeastOfAllPaths) {
  std::mt19937 random(3);
  for (int64_t length : {1, 2, 5, 7})
    for (int64_t channels : {1, 3})
      for (int64_t band = 0; band <= length; ++band) {
        const std::vector<float> a = noise(length * channels, random), b = noise(length * channels, random);
        const double wanted = least_path(a, b, channels, band, 0, 0);
        EXPECT_NEAR(warping_distance(a, b, channels, band), wanted, 1e-9) << length << " " << channels << " " << band;
        EXPECT_NEAR(warping_distance(a, b, channels, band, wanted * 1.001), wanted, 1e-9);
        EXPECT_GE(warping_distance(a, b, channels, band, wanted * 0.5), wanted * 0.5);
        // The first pair is the least of the first row, and no path is below it.
        double first = 0;
        for (size_t c = 0; c < static_cast<size_t>(channels); ++c) first += std::pow(double{a[c]} - b[c], 2);
        EXPECT_EQ(warping_distance(a, b, channels, band, first * 0.999), kInfinity);
      }
}

TEST(WarpingBand, FollowsTheLimitOfOperations) {
  EXPECT_EQ(warping_band(40 * 30, 100, 6), 100);    // the whole length
  EXPECT_EQ(warping_band(600 * 1000, 100, 1), 10);  // 6e5 pairs of 100 x 21 cells
  EXPECT_EQ(warping_band(1, int64_t{1} << 20, 3), -1);
  EXPECT_EQ(warping_band(int64_t{1} << 40, 1, 1), -1);
}

// A pulse is nearer to a flat line than to a pulse at another time, unless time may be warped.
TEST(SeriesBaselines, TellWhatWarpingSees) {
  const auto pulse = [](size_t at, float height) {
    std::vector<float> values(16);
    values[at] = height;
    return values;
  };
  const std::vector<float> early = pulse(3, 1), flat = pulse(3, 0), low = pulse(3, -1), late = pulse(12, 1),
                           deep = pulse(10, -1);
  const std::vector<LabeledSeries> train = {{early, 0}, {flat, 1}, {low, 2}, {low, 2}},
                                   held_out = {{late, 0}, {deep, 2}, {flat, 1}, {low, 2}};
  const std::vector<Baseline> baselines = series_baselines(train, held_out, 1, 3);
  ASSERT_EQ(baselines.size(), 4u);
  EXPECT_EQ(baselines[0].name, "1-nearest neighbor");
  EXPECT_EQ(baselines[0].value, 0.5);
  EXPECT_EQ(baselines[1].name, "1-nearest neighbor, time warping");
  EXPECT_EQ(baselines[1].value, 1.0);
  EXPECT_EQ(baselines[2].name, "1-nearest neighbor, time warping, each normalized");
  EXPECT_EQ(baselines[2].value, 1.0);
  EXPECT_EQ(baselines[3].name, "most frequent class");
  EXPECT_EQ(baselines[3].value, 0.5);
  for (const Baseline& each : baselines) EXPECT_EQ(each.metric, "accuracy");
  EXPECT_TRUE(series_baselines(train, {}, 1, 3).empty());
}

TEST(ComparedSeries, FollowTheLimitOfOperations) {
  EXPECT_EQ(compared_series(1000, 100, 600).size(), 1000u);
  const std::vector<int64_t> some = compared_series(1'000'000, 1024, 600);
  EXPECT_EQ(some.size(), 5425u);  // 1e10 / (3 x 1024 x 600)
  EXPECT_EQ(some[1], 1'000'000 / 5425);
  EXPECT_EQ(compared_series(10, 2, 5, 90), (std::vector<int64_t>{0, 3, 6}));
  EXPECT_EQ(compared_series(10, 2, 5, 30), (std::vector<int64_t>{0}));
  EXPECT_TRUE(compared_series(10, 2, 5, 29).empty());
  EXPECT_TRUE(compared_series(10, int64_t{1} << 40, int64_t{1} << 40).empty());
}

// 3 x 1 x 2 operations a training series; the nearest of the four is not among the first and the third.
TEST(SeriesBaselines, CompareSomeSeriesAboveTheLimit) {
  const std::vector<float> zero = {0, 0}, one = {1, 1}, two = {2, 2}, three = {3, 3};
  const std::vector<LabeledSeries> train = {{zero, 0}, {one, 1}, {two, 1}, {three, 1}}, held_out = {{one, 1}};
  const std::vector<Baseline> some = series_baselines(train, held_out, 1, 2, 12);
  EXPECT_EQ(some.at(0).name, "1-nearest neighbor of 2 of 4 series");
  EXPECT_EQ(some.at(0).value, 0);  // 0 and 2 are equally near; the first is chosen
  EXPECT_EQ(some.size(), 4u);
  const std::vector<Baseline> all = series_baselines(train, held_out, 1, 2, 24);
  EXPECT_EQ(all.at(0).name, "1-nearest neighbor");
  EXPECT_EQ(all.at(0).value, 1);
  const std::vector<Baseline> none = series_baselines(train, held_out, 1, 2, 5);
  ASSERT_EQ(none.size(), 3u);
  EXPECT_EQ(none[0].name, "1-nearest neighbor, time warping");
}

// Series of one shape and other sizes are of one class: only where each is normalized are they near each other.
TEST(SeriesBaselines, NormalizeEachSeriesAlone) {
  const std::vector<float> up = {0, 1, 2, 3, 4, 5}, down = {10, 9, 8, 7, 6, 5}, large = {5, 6, 7, 8, 9, 10},
                           flat = {8, 8, 8, 8, 8, 8};
  const std::vector<LabeledSeries> train = {{up, 0}, {down, 1}}, held_out = {{large, 0}, {down, 1}};
  const std::vector<Baseline> baselines = series_baselines(train, held_out, 1, 2);
  EXPECT_EQ(baselines.at(1).value, 0.5);
  EXPECT_EQ(baselines.at(2).value, 1.0);
  // A series that does not vary becomes zeros; NaN would be nearest to none.
  EXPECT_EQ(series_baselines({{up, 0}, {flat, 1}}, {{flat, 1}}, 1, 2).at(2).value, 1.0);
}

// Abandoning early keeps the nearest: as the search without it.
TEST(SeriesBaselines, FindTheNearestByWarping) {
  std::mt19937 random(5);
  std::vector<std::vector<float>> values;
  for (int i = 0; i < 40; ++i) values.push_back(noise(30 * 2, random));
  std::vector<LabeledSeries> train, held_out;
  for (size_t i = 0; i < 40; ++i) (i < 25 ? train : held_out).push_back({values[i], static_cast<int64_t>(i % 3)});
  double right = 0;
  for (const LabeledSeries& series : held_out) {
    std::vector<double> distances;
    for (const LabeledSeries& other : train) distances.push_back(warping_distance(series.values, other.values, 2, 30));
    right += train[static_cast<size_t>(std::ranges::min_element(distances) - distances.begin())].label == series.label;
  }
  EXPECT_EQ(series_baselines(train, held_out, 2, 3).at(1).value, right / 15);
}

}  // namespace
}  // namespace plimsoll
