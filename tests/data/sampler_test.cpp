#include "data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <thread>

#include "base/hash.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<int64_t> epoch_of(const WindowOrder& order, int64_t epoch) {
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < order.count(); ++i) windows.push_back(order.index(epoch * order.count() + i));
  return windows;
}

TEST(WindowOrder, EachEpochIsAPermutationOfItsOwn) {
  SplitMix64 random(1);
  for (int round = 0; round < 50; ++round) {
    const auto count = static_cast<int64_t>(20 + random.below(500));
    const uint64_t seed = random.next();
    const WindowOrder order(count, seed, true);
    std::vector<int64_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    std::vector<int64_t> before = all;
    for (int64_t epoch : {0, 1, 2, 1000}) {
      const std::vector<int64_t> windows = epoch_of(order, epoch);
      ASSERT_TRUE(std::is_permutation(windows.begin(), windows.end(), all.begin()));
      ASSERT_NE(windows, before);
      before = windows;
    }
    ASSERT_NE(epoch_of(order, 0), epoch_of(WindowOrder(count, seed + 1, true), 0));
    ASSERT_NE(epoch_of(order, 1), epoch_of(WindowOrder(count, seed + 1, true), 0));
  }
}

TEST(WindowOrder, MayStartAnywhere) {
  const WindowOrder order(97, 5, true);
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < 1000; ++i) windows.push_back(order.index(i));
  SplitMix64 random(2);
  const WindowOrder resumed(97, 5, true);
  for (int i = 0; i < 1000; ++i) {
    const auto position = static_cast<int64_t>(random.below(1000));
    ASSERT_EQ(resumed.index(position), windows[static_cast<size_t>(position)]);
  }
}

// The order is part of the meaning of a seed: it must not change from one machine, library or release to the next.
TEST(WindowOrder, StaysAsItIs) {
  const WindowOrder order(8, 7, true);
  EXPECT_THAT(epoch_of(order, 0), ElementsAre(2, 4, 7, 1, 0, 5, 6, 3));
  EXPECT_THAT(epoch_of(order, 1), ElementsAre(1, 5, 4, 0, 2, 3, 7, 6));
}

TEST(WindowOrder, IsPlainUnlessShuffled) {
  const WindowOrder order(3, 7, false);
  EXPECT_THAT(epoch_of(order, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(epoch_of(order, 5), ElementsAre(0, 1, 2));
}

TEST(WindowOrder, CountsEpochs) {
  const WindowOrder order(3, 7, true);
  EXPECT_EQ(order.epoch(0), 0);
  EXPECT_EQ(order.epoch(2), 0);
  EXPECT_EQ(order.epoch(3), 1);
  EXPECT_EQ(order.count(), 3);
  EXPECT_THROW(order.index(-1), InternalError);
  EXPECT_THROW(WindowOrder(0, 7, true), InternalError);
}

TEST(WindowOrder, VisitsEveryPlaceAlike) {
  // 4000 epochs of 6 windows: each is first some 667 times; five standard deviations are 118.
  const WindowOrder order(6, 3, true);
  std::vector<int64_t> first(6);
  for (int64_t epoch = 0; epoch < 4000; ++epoch) ++first[static_cast<size_t>(order.index(epoch * 6))];
  EXPECT_THAT(first, Each(::testing::AllOf(::testing::Gt(549), ::testing::Lt(785))));
}

TEST(WindowOrder, ServesSeveralThreads) {
  const WindowOrder order(50, 9, true);
  std::vector<int64_t> expected;
  const WindowOrder alone(50, 9, true);
  for (int64_t i = 0; i < 2000; ++i) expected.push_back(alone.index(i));
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = t; i < 2000; i += 3) EXPECT_EQ(order.index(i), expected[static_cast<size_t>(i)]);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(WindowOrder, IsAPermutationOnBothSidesOfTheLongestList) {
  for (const int64_t count : {kMaxListedWindows, kMaxListedWindows + 1}) {
    const WindowOrder order(count, 3, true);
    std::vector<bool> seen(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) seen[static_cast<size_t>(order.index(count + i))] = true;
    ASSERT_EQ(std::ranges::count(seen, true), count);
  }
}

// A list of 2^32 windows would take 16 GiB for each epoch, and minutes.
TEST(WindowOrder, OfBillionsOfWindowsKeepsNoList) {
  const int64_t count = int64_t{4'000'000'000};
  const WindowOrder order(count, 7, true), other(count, 8, true);
  int64_t equal = 0, low = 0;
  std::set<int64_t> windows;
  for (int64_t i = 0; i < 4000; ++i) {
    const int64_t window = order.index(i * 1'000'003);
    ASSERT_TRUE(window >= 0 && window < count);
    windows.insert(window);
    low += window < count / 2;
    equal +=
        window == order.index(count + i * 1'000'003) || window == other.index(i * 1'000'003) || window == i * 1'000'003;
  }
  EXPECT_EQ(windows.size(), 4000u);
  EXPECT_EQ(equal, 0);                                                           // expected: 3 x 4000 / 4e9
  EXPECT_THAT(low, ::testing::AllOf(::testing::Gt(1842), ::testing::Lt(2158)));  // five standard deviations are 158
}

TEST(WindowOrder, OfManyWindowsStaysAsItIs) {
  const WindowOrder order(int64_t{1} << 32, 7, true);
  EXPECT_THAT((std::vector{order.index(0), order.index(1), order.index(int64_t{1} << 32)}),
              ElementsAre(4167287359, 3803072532, 1286431802));
}

}  // namespace
}  // namespace plimsoll
