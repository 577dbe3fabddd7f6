#include "base/content_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace plimsoll {
namespace {

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
