#include "base/nearest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace plimsoll {
namespace {

TEST(EditDistance, CountsEachKindOfSlipAsOne) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", "abd"), 1u);   // changed
  EXPECT_EQ(edit_distance("abc", "abxc"), 1u);  // put in
  EXPECT_EQ(edit_distance("abc", "ac"), 1u);    // left out
  EXPECT_EQ(edit_distance("abc", "bac"), 1u);   // swapped
  EXPECT_EQ(edit_distance("ABC", "abc"), 0u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(EditDistance, IsSymmetricAndBoundedByTheSlipsMade) {
  std::mt19937 random(7);
  const auto letter = [&] { return static_cast<char>('a' + random() % 4); };
  for (int round = 0; round < 500; ++round) {
    std::string word;
    for (size_t length = random() % 12; length > 0; --length) word += letter();
    std::string other = word;
    const size_t slips = random() % 4;
    for (size_t i = 0; i < slips; ++i) {
      const size_t at = other.empty() ? 0 : random() % other.size();
      if (other.empty() || random() % 3 == 0)
        other.insert(at, 1, letter());
      else if (random() % 2 == 0)
        other.erase(at, 1);
      else
        other[at] = letter();
    }
    const size_t distance = edit_distance(word, other);
    EXPECT_LE(distance, slips) << word << " " << other;
    EXPECT_EQ(distance, edit_distance(other, word));
    EXPECT_EQ(distance == 0, word == other);
  }
}

TEST(Nearest, FindsWhatWasMeant) {
  const std::vector<std::string> known = {"optimizer.name", "optimizer.eps", "batch_size", "seed"};
  EXPECT_EQ(nearest("optimzer.name", known), "optimizer.name");
  EXPECT_EQ(nearest("batchsize", known), "batch_size");
  EXPECT_EQ(nearest("Batch-Size", known), "batch_size");
  EXPECT_EQ(nearest("sede", known), "seed");
  EXPECT_EQ(nearest("seed", known), "seed");
}

TEST(Nearest, TakesTheFirstOfSeveralAsNear) {
  EXPECT_EQ(nearest("cat", {"bat", "car"}), "bat");
}

TEST(Nearest, IsSilentWhereNothingIsNear) {
  EXPECT_EQ(nearest("learning", {"seed", "batch_size"}), std::nullopt);
  EXPECT_EQ(nearest("", {"a"}), std::nullopt);
  EXPECT_EQ(nearest("lr", {"eps"}), std::nullopt);
  EXPECT_EQ(nearest(std::string(1'000'000, 'x'), {"seed"}), std::nullopt);
  EXPECT_EQ(nearest("seed", {}), std::nullopt);
}

}  // namespace
}  // namespace plimsoll
