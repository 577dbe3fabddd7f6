#include "base/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

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

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// XXH3, 64 bits, seed 0, with known values of other programs.
TEST(ContentHash, IsTheSameOnEveryMachine) {
  EXPECT_EQ(content_hash({}), 0x2d06800538d394c2u);
  EXPECT_NE(content_hash(bytes_of("xxhash")), content_hash(bytes_of("xxhasi")));
}

TEST(ContentHash, OfPiecesIsThatOfTheWhole) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    std::string text(random() % 5000, '\0');
    for (char& letter : text) letter = static_cast<char>(random());
    ContentHasher hasher;
    for (size_t at = 0; at < text.size();) {
      const size_t piece = std::min<size_t>(text.size() - at, random() % 700);
      hasher.update(bytes_of(text).subspan(at, piece));
      at += piece;
    }
    EXPECT_EQ(hasher.digest(), content_hash(bytes_of(text)));
    hasher.reset();
    EXPECT_EQ(hasher.digest(), content_hash({}));
  }
}

TEST(ContentHash, FindsAFlippedBit) {
  std::string text(1000, 'x');
  const uint64_t before = content_hash(bytes_of(text));
  for (size_t bit = 0; bit < 8 * text.size(); bit += 97) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(content_hash(bytes_of(text)), before);
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
  }
}

}  // namespace
}  // namespace plimsoll
