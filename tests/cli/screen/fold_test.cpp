#include "cli/screen/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/text.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

TEST(Fold, BreaksAtSpacesAndIndentsWhatFollows) {
  EXPECT_THAT(folded_lines("one two three four", 9, 2), ElementsAre("one two", "  three", "  four"));
  EXPECT_THAT(folded_lines("one two", 7), ElementsAre("one two"));
  EXPECT_THAT(folded_lines("", 7), ElementsAre(""));
  EXPECT_THAT(folded_lines("a  b", 80), ElementsAre("a  b"));  // columns of a listing stay
  EXPECT_THAT(folded_lines("   12  add", 9), ElementsAre("   12", "add"));
  EXPECT_THAT(folded_lines("größe größe", 5), ElementsAre("größe", "größe"));
  EXPECT_EQ(fold("a b\nc\n", 1), "a\nb\nc\n");
  EXPECT_EQ(fold("a b", kAnyWidth), "a b\n");
}

TEST(Fold, ANumberKeepsItsUnit) {
  EXPECT_THAT(folded_lines("budget of 87.7 MiB, and", 16), ElementsAre("budget of", "87.7 MiB, and"));
  EXPECT_THAT(folded_lines("now 21.7 k tokens/s", 12), ElementsAre("now", "21.7 k tokens/s"));
  EXPECT_THAT(folded_lines("batch 8 x 2", 8), ElementsAre("batch", "8 x 2"));
  EXPECT_THAT(folded_lines("layers 12 seconds", 9), ElementsAre("layers 12", "seconds"));
}

TEST(Fold, LongWordsStayWholeOrAreCut) {
  EXPECT_THAT(folded_lines("to /a/long/path now", 6, 2), ElementsAre("to", "  /a/long/path", "  now"));
  EXPECT_THAT(folded_lines("abcdefgh ij", 5, 1, LongWords::cut), ElementsAre("abcde", " fgh", " ij"));
}

TEST(Fold, ColumnsOfHelpStayColumns) {
  const char* const help =
      "Options:\n  --json FILE  write it to FILE and so on\n\n  plimsoll plan job.yaml memory=2GiB\n";
  EXPECT_EQ(fold_columns(help, 32),
            "Options:\n  --json FILE  write it to FILE\n               and so on\n\n"
            "  plimsoll plan job.yaml\n      memory=2GiB\n");
}

TEST(Fold, ADescriptionKeepsItsColumnAndSpellingsStayTogether) {
  EXPECT_EQ(fold_columns("  --use-amp,--use_amp       half the memory\n", 40),
            "  --use-amp,--use_amp       half the\n      memory\n");
  EXPECT_EQ(fold_columns("  --use-amp,--use_amp  half the memory\n", 20),
            "  --use-amp,\n      --use_amp\n      half the\n      memory\n");
  EXPECT_EQ(fold_columns("                      half of all the memory\n", 32),
            "                      half of\n                      all the\n                      memory\n");
}

// Nothing is lost, and nothing is too wide.
TEST(Fold, RandomTextsFitAndKeepTheirWords) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t words = random() % 20; words > 0; --words)
      text += std::string(random() % 8, 'x') + (random() % 3 ? "ä" : "7") + (random() % 3 ? " " : "  ") +
              (random() % 4 ? "" : "MiB ");
    const size_t columns = 1 + random() % 30, indent = random() % 4;
    std::string joined, wanted;
    for (const std::string& line : folded_lines(text, columns, indent, LongWords::cut)) {
      EXPECT_LE(display_width(line), columns) << text;
      for (char c : line)
        if (c != ' ') joined += c;
    }
    for (char c : text)
      if (c != ' ') wanted += c;
    EXPECT_EQ(joined, wanted) << "columns " << columns << " indent " << indent;
  }
}

TEST(Shorten, LeavesAnEllipsis) {
  EXPECT_EQ(shorten_end("bfloat16[8, 3]", 10), "bfloat16[…");
  EXPECT_EQ(shorten_end("bfloat16", 8), "bfloat16");
  EXPECT_EQ(shorten_end("abc", 1), "…");
  EXPECT_EQ(shorten_end("abc", 0), "");
  EXPECT_EQ(shorten_middle("layers.12.attention.qkv.weight", 16), "layer…qkv.weight");
  EXPECT_EQ(shorten_middle("layers", 6), "layers");
  EXPECT_EQ(shorten_middle("層層層層", 5), "…層層");
  for (size_t columns = 0; columns < 12; ++columns) {
    EXPECT_LE(display_width(shorten_middle("größe 層 e\u0301 wörter", columns)), columns);
    EXPECT_LE(display_width(shorten_end("größe 層 e\u0301 wörter", columns)), columns);
  }
}

}  // namespace
}  // namespace plimsoll
