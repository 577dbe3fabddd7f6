#include "base/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

namespace plimsoll {
namespace {

TEST(Glob, MatchesANameOrAModuleThatItLiesIn) {
  const std::string name = "layers.3.attention.qkv.weight";
  for (const char* pattern : {"layers", "layers.3", "layers.*", "layers.[0-4]", "*.qkv", "*.attention", "layers.?.att*",
                              "layers.3.attention.qkv.weight", "*", "*.weight"})
    EXPECT_TRUE(matches_path(pattern, name)) << pattern;
  for (const char* pattern : {"layer", "layers.4", "layers.[4-9]", "qkv", "attention.*", "*.bias", "", "layers.3."})
    EXPECT_FALSE(matches_path(pattern, name)) << pattern;
}

TEST(Glob, ManyStarsEnd) {
  std::string pattern = "b";
  for (int i = 0; i < 100; ++i) pattern = "a*" + pattern;
  EXPECT_FALSE(matches_path(pattern, std::string(200, 'a')));
}

TEST(Glob, NearestFewAreInOrder) {
  EXPECT_THAT(nearest_few("layer.0", {"head", "layers.0", "layers.10", ""}, 2),
              ::testing::ElementsAre("layers.0", "layers.10"));
  EXPECT_THAT(nearest_few("x", {}, 3), ::testing::IsEmpty());
}

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

TEST(NearestFile, NamesTheNearestBesideIt) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "plimsoll_nearest_file_test";
  std::filesystem::create_directories(folder);
  for (const char* name : {"corpus.txt", "corpus.md", "job.yaml"}) std::ofstream(folder / name) << "x";
  EXPECT_EQ(nearest_file_advice(folder / "corpsu.md"), "; did you mean '" + (folder / "corpus.md").string() + "'?");
  EXPECT_EQ(nearest_file_advice(folder / "weights.bin"), "");
  EXPECT_EQ(nearest_file_advice(folder / "job.yml"), "; did you mean '" + (folder / "job.yaml").string() + "'?");
  EXPECT_EQ(nearest_file_advice(folder / "base.txt"), "") << "the ending alone makes no likeness";
  EXPECT_EQ(nearest_file_advice(folder / "corpus.txt"), "") << "it is there";
  EXPECT_EQ(nearest_file_advice(folder / "none" / "corpus.txt"), "") << "its folder is not";
  EXPECT_EQ(nearest_file_advice(""), "");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace plimsoll
