#include "base/quoted.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(InQuotes, KeepsShortTextOnOneLine) {
  EXPECT_EQ(in_quotes("fp16"), "'fp16'");
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes("a\nb\x1b[31m\x7f"), "'a?b?[31m?'");
}

TEST(InQuotes, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(in_quotes(std::string(60, 'x')), "'" + std::string(60, 'x') + "'");
  EXPECT_EQ(in_quotes(std::string(61, 'x')), "'" + std::string(60, 'x') + "...'");
  EXPECT_EQ(one_line(std::string(59, 'x') + "\u00e9tat"), std::string(59, 'x') + "...");
}

}  // namespace
}  // namespace plimsoll
