#include "data/slices/slice_split.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

namespace plimsoll {
namespace {

std::string drawn(const std::vector<SliceUse>& use) {
  std::string text;
  for (SliceUse each : use) text += "tve-"[static_cast<size_t>(each)];
  return text;
}

TEST(SliceSplit, IsTheDrawnExample) {
  EXPECT_EQ(drawn(split_slices(16, {0.125, 0.125, 2, 1})), "tt-vv-tttt-ee-tt");
  EXPECT_EQ(drawn(split_slices(16, {0.25, 0, 2, 1})), "tt-vv-tttt-vv-tt");
  EXPECT_EQ(drawn(split_slices(16, {0, 0.25, 2, 1})), "tt-ee-tttt-ee-tt");
}

TEST(SliceSplit, MixesThePartsEvenly) {
  std::string held_out;
  for (char each : drawn(split_slices(24, {0.25, 0.125, 1, 0})))
    if (each != 't') held_out += each;
  EXPECT_EQ(held_out, "vvevvevve");
}

TEST(SliceSplit, HoldsNothingOutOfNothing) {
  EXPECT_EQ(drawn(split_slices(5, {0, 0, 2, 1})), "ttttt");
  EXPECT_EQ(drawn(split_slices(0, {0.5, 0.5, 2, 1})), "");
}

TEST(SliceSplit, BlocksLargerThanAllTakeAll) {
  EXPECT_EQ(drawn(split_slices(3, {0.1, 0, 10, 1})), "vvv");
}

TEST(SliceSplit, NoSliceThatIsTrainedOnIsNearAHeldOutOne) {
  for (int64_t count : {7, 40, 100, 181})
    for (double fraction : {0.05, 0.2, 0.5})
      for (int64_t block : {1, 4, 9})
        for (int64_t gap : {0, 1, 3}) {
          const auto use = split_slices(count, {fraction * 0.75, fraction * 0.25, block, gap});
          int64_t held_out = 0;
          for (int64_t i = 0; i < count; ++i) {
            if (use[i] != SliceUse::validation && use[i] != SliceUse::test) continue;
            ++held_out;
            for (int64_t j = std::max<int64_t>(0, i - gap); j <= std::min(count - 1, i + gap); ++j)
              EXPECT_NE(use[j], SliceUse::train);
          }
          EXPECT_GE(held_out, 1);
          EXPECT_NEAR(static_cast<double>(held_out), fraction * static_cast<double>(count),
                      2 * static_cast<double>(block));
        }
}

}  // namespace
}  // namespace plimsoll
