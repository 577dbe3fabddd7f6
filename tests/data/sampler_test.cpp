#include "data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

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

void expect_permutation(int64_t count, uint64_t key) {
  const IndexPermutation permutation(count, key);
  std::vector<bool> seen(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t image = permutation(i);
    ASSERT_TRUE(image >= 0 && image < count) << count << " " << i;
    ASSERT_FALSE(seen[static_cast<size_t>(image)]) << count << " " << i;
    seen[static_cast<size_t>(image)] = true;
  }
}

TEST(IndexPermutation, VisitsEachNumberOnce) {
  for (int64_t count = 1; count <= 700; ++count)
    for (const uint64_t key : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) expect_permutation(count, key);
  SplitMix64 random(5);
  for (int round = 0; round < 30; ++round) {
    const auto count = static_cast<int64_t>(1 + random.below(100'000));
    SCOPED_TRACE(count);
    expect_permutation(count, random.next());
  }
  for (const int64_t power : {10, 11, 16, 17})
    for (const int64_t beside : {-1, 0, 1}) expect_permutation((int64_t{1} << power) + beside, 9);
}

TEST(IndexPermutation, IsAnotherForAnotherKey) {
  const IndexPermutation one(1000, 1), other(1000, 2);
  int64_t equal = 0, fixed = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    equal += one(i) == other(i);
    fixed += one(i) == i;
  }
  // Both numbers are 1 on average, as in random permutations.
  EXPECT_LT(equal, 10);
  EXPECT_LT(fixed, 10);
}

// Chi-squared over the first number's image, of 10 000 keys: 15 degrees of freedom; 44.3 is exceeded once in 10 000.
TEST(IndexPermutation, SendsANumberEverywhereAlike) {
  for (const int64_t count : {16, 13}) {
    std::vector<double> images(static_cast<size_t>(count));
    for (uint64_t key = 0; key < 10'000; ++key) ++images[static_cast<size_t>(IndexPermutation(count, key)(0))];
    double chi = 0;
    const double expected = 10'000.0 / static_cast<double>(count);
    for (const double each : images) chi += (each - expected) * (each - expected) / expected;
    EXPECT_LT(chi, 44.3) << count;
  }
}

TEST(IndexPermutation, RefusesWhatItCannotCount) {
  EXPECT_THROW(IndexPermutation(0, 1), InternalError);
  EXPECT_THROW(IndexPermutation(5, 1)(5), InternalError);
  EXPECT_THROW(IndexPermutation(5, 1)(-1), InternalError);
  const IndexPermutation largest(int64_t{1} << 62, 1);
  EXPECT_NE(largest(0), largest(1));
}

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
