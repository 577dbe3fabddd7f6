#include "data/evenly_spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EvenlySpread, TakesAllOrEvenDistances) {
  EXPECT_THAT(evenly_spread(3, 5), ElementsAre(0, 1, 2));
  EXPECT_THAT(evenly_spread(10, 3), ElementsAre(0, 3, 6));
  EXPECT_THAT(evenly_spread(7, 4), ElementsAre(0, 1, 3, 5));
  EXPECT_THAT(evenly_spread(5, 0), ElementsAre(0));
  EXPECT_THAT(evenly_spread(0, 5), IsEmpty());
}

TEST(EvenlySpread, DoesNotOverflow) {
  constexpr int64_t count = (int64_t{1} << 62) + 3, taken = int64_t{1} << 16;
  const std::vector<int64_t> numbers = evenly_spread(count, taken);
  ASSERT_EQ(std::ssize(numbers), taken);
  for (int64_t i = 1; i < taken; ++i) ASSERT_GE(numbers[i] - numbers[i - 1], count / taken) << i;
  EXPECT_LT(numbers.back(), count);
}

}  // namespace
}  // namespace plimsoll
