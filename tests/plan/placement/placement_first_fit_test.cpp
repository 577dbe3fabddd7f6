// Tests first fit: the order in which boxes are placed decides the gaps between them.
#include "plan/placement/placement_first_fit.h"

#include <gtest/gtest.h>

#include <array>

namespace plimsoll::placing {
namespace {

//   a a . .        In the order of birth, b is placed on a, and c, which meets b alone, finds one free unit below b and
//   b b b b        needs two. Placed first, c is below b.
//   . . c c
Kernel stairs() {
  Kernel kernel;
  kernel.boxes = {{0, 1, 1}, {0, 2, 1}, {1, 2, 2}};
  kernel.items = {0, 1, 2};
  kernel.load = {2, 3};
  kernel.lower_bound = 3;
  return kernel;
}

int64_t height_in_order(const Kernel& kernel, const std::array<int32_t, 3>& order) {
  PlacedBoxes shelves;
  int64_t work = 0;
  return first_fit(kernel, order, Gap::lowest, 100, &shelves, &work).height;
}

TEST(FirstFit, DependsOnTheOrder) {
  EXPECT_EQ(height_in_order(stairs(), {0, 1, 2}), 4);
  EXPECT_EQ(height_in_order(stairs(), {2, 0, 1}), 3);
}

TEST(FirstFit, GivesUpAboveTheLimit) {
  PlacedBoxes shelves;
  int64_t work = 0;
  const std::array<int32_t, 3> order{0, 1, 2};
  EXPECT_EQ(first_fit(stairs(), order, Gap::lowest, 4, &shelves, &work).height, 4);
  EXPECT_EQ(first_fit(stairs(), order, Gap::lowest, 3, &shelves, &work).height, std::numeric_limits<int64_t>::max());
  EXPECT_GT(work, 0);
}

TEST(FirstFit, TriesOtherOrdersThanThatOfBirth) {
  int64_t work = 0;
  const KernelPlacement best = best_first_fit(stairs(), 3, &work);
  EXPECT_EQ(best.height, 3);
  EXPECT_EQ(best.offsets, (std::vector<int64_t>{0, 2, 0}));
}

TEST(FirstFit, ContentionIsTheGreatestLoadOfABoxsSections) {
  EXPECT_EQ(contention(stairs()), (std::vector<int64_t>{2, 3, 3}));
}

}  // namespace
}  // namespace plimsoll::placing
