#include "data/series/hilbert.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <vector>

namespace plimsoll {
namespace {

// Every point has a place of its own, and from each place to the next one coordinate changes by one.
TEST(Hilbert, PassesThroughEveryPointInSingleSteps) {
  for (const auto& [axes, bits] : {std::pair{1, 5}, {2, 1}, {2, 5}, {3, 4}, {4, 3}, {5, 2}, {7, 2}}) {
    std::map<uint64_t, std::vector<uint32_t>> places;
    const uint64_t points = uint64_t{1} << (axes * bits);
    for (uint64_t number = 0; number < points; ++number) {
      std::vector<uint32_t> point;
      for (int axis = 0; axis < axes; ++axis)
        point.push_back(static_cast<uint32_t>(number >> (axis * bits)) & ((1u << bits) - 1));
      std::vector<uint32_t> used = point;
      EXPECT_TRUE(places.emplace(hilbert_index(used, bits), point).second) << axes << " axes of " << bits << " bits";
    }
    ASSERT_EQ(places.rbegin()->first, points - 1);
    for (uint64_t i = 1; i < points; ++i) {
      int64_t steps = 0;
      for (int axis = 0; axis < axes; ++axis)
        steps += std::abs(static_cast<int64_t>(places.at(i)[axis]) - static_cast<int64_t>(places.at(i - 1)[axis]));
      ASSERT_EQ(steps, 1) << axes << " axes of " << bits << " bits at " << i;
    }
  }
}

TEST(Hilbert, BeginsAtTheOriginAndFillsAllBits) {
  std::vector<uint32_t> origin(16, 0);
  EXPECT_EQ(hilbert_index(origin, 4), 0u);
  // The curve ends at a neighbor of the origin's corner: the last place of 64 bits is taken by one of the corners.
  bool found = false;
  for (uint32_t corner = 0; corner < 4; ++corner) {
    std::vector<uint32_t> point = {corner & 1 ? 0x7fffffffu : 0, corner & 2 ? 0x7fffffffu : 0};
    found |= hilbert_index(point, 31) == (uint64_t{1} << 62) - 1;
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace plimsoll
