#include "data/clips/clip_baselines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

// Frames of one color each.
std::vector<uint8_t> even(int64_t size, const std::vector<std::array<uint8_t, 3>>& colors) {
  std::vector<uint8_t> pictures;
  for (const auto& color : colors)
    for (int64_t i = 0; i < size * size; ++i) pictures.insert(pictures.end(), color.begin(), color.end());
  return pictures;
}

ClipSummary summary(const std::vector<std::array<uint8_t, 3>>& colors) {
  return {even(16, colors), std::ssize(colors), 16};
}

TEST(ClipSummary, AveragesCellsAndColors) {
  // 16 x 16: a cell is 2 x 2 pixels; the upper left cell has one bright pixel of four.
  std::vector<uint8_t> picture(16 * 16 * 3, 0);
  picture[0] = 200;
  const ClipSummary clip(picture, 1, 16);
  ASSERT_EQ(clip.frames().size(), 1u);
  EXPECT_EQ(clip.frames()[0][0], 50);
  for (size_t i = 1; i < clip.frames()[0].size(); ++i) ASSERT_EQ(clip.frames()[0][i], 0);
  EXPECT_THAT(clip.color(), ElementsAre(200.0 / 256, 0, 0));
}

// At most four frames, of pictures that are smaller than the cells and not a multiple of them.
TEST(ClipSummary, TakesFramesOfEverySize) {
  for (const int64_t size : {1, 3, 8, 13}) {
    const ClipSummary clip(even(size, {{10, 20, 30}, {20, 20, 30}, {30, 20, 30}, {40, 20, 30}, {50, 20, 30}}), 5, size);
    ASSERT_EQ(clip.frames().size(), 4u);
    EXPECT_EQ(clip.frames()[3][3], 40);
    EXPECT_EQ(clip.frames()[3].back(), 30);
    EXPECT_THAT(clip.color(), ElementsAre(30, 20, 30));
  }
}

// The first known clip shares a frame with the other one, and has another mean color.
TEST(NearestClipSearch, TellsFramesFromColors) {
  NearestClipSearch search;
  search.add(summary({{0, 0, 0}, {255, 255, 255}}), 4);
  search.add(summary({{20, 0, 0}, {20, 0, 0}}), 7);
  const NearestCaptions nearest = search.nearest_to(summary({{2, 0, 0}, {30, 0, 0}}));
  EXPECT_EQ(nearest.by_frame, 4u);
  EXPECT_EQ(nearest.by_color, 7u);
  // Equally near: the first.
  search.add(summary({{20, 0, 0}, {20, 0, 0}}), 9);
  EXPECT_EQ(search.nearest_to(summary({{20, 0, 0}})).by_frame, 7u);
}

TEST(NearestClipSearch, ComparesBoundedNumbersOfClips) {
  EXPECT_THAT(NearestClipSearch::compared(3, 100), ElementsAre(0, 1, 2));
  EXPECT_TRUE(NearestClipSearch::compared(0, 100).empty());
  const auto many = NearestClipSearch::compared(1'000'000'000, 100);
  EXPECT_EQ(many.size(), 4096u);
  EXPECT_EQ(many[1], 1'000'000'000 / 4096);
  EXPECT_THAT(NearestClipSearch::compared(10, int64_t{1} << 29), ElementsAre(0, 5));
  EXPECT_THAT(NearestClipSearch::compared(10, int64_t{1} << 40), ElementsAre(0));
}

TEST(NearestClipSearch, EvaluatesBoundedNumbersOfClips) {
  EXPECT_THAT(NearestClipSearch::evaluated(3), ElementsAre(0, 1, 2));
  EXPECT_TRUE(NearestClipSearch::evaluated(0).empty());
  const auto many = NearestClipSearch::evaluated(3 * 4096);
  ASSERT_EQ(many.size(), 4096u);
  EXPECT_EQ(many[2], 6);
}

}  // namespace
}  // namespace plimsoll
