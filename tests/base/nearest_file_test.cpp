#include "base/nearest_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace plimsoll {
namespace {

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
