#include "data/index_permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/hash.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

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

}  // namespace
}  // namespace plimsoll
