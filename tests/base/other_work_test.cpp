// Tests the share of processors that other programs take.
#include "base/measurement.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(OtherWork, IsSaidByThisSystem) {
  const auto before = other_work(), after = other_work();
  ASSERT_TRUE(before && after);
  EXPECT_GE(before->processors, 1);
  EXPECT_GT(before->seconds, 0);
  // Own time is counted to the microsecond, that of the machine in ticks of 1/100 s for each processor.
  EXPECT_GE(after->seconds, before->seconds - 0.02 * before->processors);
}

TEST(OtherWork, SharesOnlyTheProcessorsThatThreadsNeed) {
  const OtherWork before{.seconds = 100, .processors = 4}, after{.seconds = 106, .processors = 4};
  EXPECT_DOUBLE_EQ(shared_processors(before, after, 2, 4), 3);  // three are busy, and four are needed
  EXPECT_DOUBLE_EQ(shared_processors(before, after, 2, 2), 1);
  EXPECT_DOUBLE_EQ(shared_processors(before, after, 2, 1), 0);
  EXPECT_DOUBLE_EQ(shared_processors(after, before, 2, 4), 0);
  EXPECT_DOUBLE_EQ(shared_processors(before, after, 0, 4), 0);
}

}  // namespace
}  // namespace plimsoll
