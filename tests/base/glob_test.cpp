#include "base/glob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace plimsoll
