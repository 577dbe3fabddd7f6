#include "base/hash.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(SplitMix64, GivesTheNumbersOfThePaper) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
}

// The same bits seed dropout, updates and orders of samples in every version, on every machine and GPU.
TEST(SplitMix64, GivesItsFirstNumberForASeed) {
  static_assert(splitmix64(0) == 0xe220a8397b1dcdaf);
  EXPECT_EQ(splitmix64(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(splitmix64(1234567), 6457827717110365317u);
  EXPECT_EQ(splitmix64(~uint64_t{0}), 0xe4d971771b652c20u);
}

TEST(SplitMix64, DrawsBelowItsBound) {
  SplitMix64 random(1);
  for (uint64_t bound : {uint64_t{1}, uint64_t{7}, (uint64_t{1} << 63) + 1, ~uint64_t{0}})
    for (int i = 0; i < 100; ++i) ASSERT_LT(random.below(bound), bound);
}

// http://www.isthe.com/chongo/src/fnv/test_fnv.c has these values.
TEST(HashBytes, GivesTheNumbersOfFnv1a) {
  EXPECT_EQ(hash_bytes(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_bytes("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hash_bytes("foobar"), 0x85944171f73967e8u);
  EXPECT_EQ(hash_bytes("bar", hash_bytes("foo")), hash_bytes("foobar"));
}

}  // namespace
}  // namespace plimsoll
