#include "base/text.h"

#include <gtest/gtest.h>

#include "base/file_error.h"
#include "refusals.h"

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

TEST(FewNames, AreAtMostTwelveEachOnOneLine) {
  EXPECT_EQ(few_names({}), "");
  EXPECT_EQ(few_names({"a\nb", "c"}), "a?b, c");
  EXPECT_EQ(few_names(std::vector<std::string>(12, "a")), "a, a, a, a, a, a, a, a, a, a, a, a");
  EXPECT_EQ(few_names(std::vector<std::string>(13, "a")), "a, a, a, a, a, a, a, a, a, a, a, a, ...");
}

const std::vector<std::string> kControls = {std::string(1, '\0'),
                                            "\t",
                                            "\x1b",
                                            "\x7f",
                                            "\x80",
                                            "\x9b",
                                            "\u0080",
                                            "\u009f",
                                            "\u061c",
                                            "\u200e",
                                            "\u200f",
                                            "\u2028",
                                            "\u2029",
                                            "\u202a",
                                            "\u202e",
                                            "\u2066",
                                            "\u2069",
                                            "\n"};

TEST(WithoutControls, NothingActsOnATerminalOrTurnsALine) {
  for (const std::string& each : kControls) {
    EXPECT_EQ(without_controls("a" + each + "b"), "a?b") << testing::PrintToString(each);
    EXPECT_EQ(in_quotes("a" + each + "b"), "'a?b'") << testing::PrintToString(each);
  }
  EXPECT_EQ(without_controls("a\nb\rc", LineBreaks::kept), "a\nb?c");
  EXPECT_EQ(without_controls("caf\u00e9 \u65e5\u672c \u202f\u2065\u206a \U0001f6a2"),
            "caf\u00e9 \u65e5\u672c \u202f\u2065\u206a \U0001f6a2");
}

// A terminal that takes such bytes one by one would see a C1 control.
TEST(WithoutControls, CharactersLongerThanTheyNeedBeAreBytes) {
  EXPECT_EQ(without_controls("\xe0\x82\xa9"), "\xe0?\xa9");
  EXPECT_EQ(without_controls("\xf0\x82\x82\xac"), "\xf0??\xac");
  EXPECT_EQ(without_controls("\xed\xa0\x9b"), "\xed\xa0?");     // a surrogate
  EXPECT_EQ(without_controls("\xf4\x90\x80\x80"), "\xf4???");   // beyond Unicode
  EXPECT_EQ(without_controls("\xed\x9f\xbf"), "\xed\x9f\xbf");  // U+D7FF
}

TEST(CleanErrors, MessagesAreCleanedAndKindsKept) {
  EXPECT_EQ(with_clean_errors([] { return 3; }), 3);
  const auto fails = [] { throw UserError("a\x1b[2J\u202eb", UserError::Kind::failure); };
  EXPECT_EQ(refusal_of([&] { with_clean_errors(fails); }, UserError::Kind::failure), "a?[2J?b");
  EXPECT_THROW(with_clean_errors([] { throw MemoryUnavailable("none", 1); }), MemoryUnavailable);
}

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width(""), 0u);
  EXPECT_EQ(display_width("plain"), 5u);
  EXPECT_EQ(display_width("größe µs …"), 10u);
  EXPECT_EQ(display_width("e\u0301"), 1u);
  EXPECT_EQ(display_width("層"), 2u);
  EXPECT_EQ(display_width("\U0001F680"), 2u);
  EXPECT_EQ(display_width("\u26a1"), 2u);        // an emoji outside the blocks of emoji
  EXPECT_EQ(display_width("\U0001F321"), 1u);    // a symbol in them that is no emoji unless U+FE0F follows
  EXPECT_EQ(display_width("\u05d0\u05b8"), 1u);  // a letter with a mark that combines
  EXPECT_EQ(display_width("\u0915\u093e"), 2u);  // a letter with a mark that takes a column
  EXPECT_EQ(display_width("\u200b\u00ad"), 1u);  // no column, and a soft hyphen
  EXPECT_EQ(display_width("a\tb\u009b"), 4u);    // as many columns as without_controls() leaves
  EXPECT_EQ(display_width("\xff\xc3"), 2u);      // no UTF-8
  EXPECT_EQ(display_width("\xe5\xb1"), 2u);      // a character cut short
  EXPECT_EQ(display_width("\xf0\x9f"
                          "ab"),
            4u);  // the same, with other text after it
}

TEST(FitWidth, CutsBetweenCharacters) {
  EXPECT_EQ(fit_width("abcdef", 3), "abc");
  EXPECT_EQ(fit_width("abc", 30), "abc");
  EXPECT_EQ(fit_width("a層b", 2), "a");
  EXPECT_EQ(fit_width("a層b", 3), "a層");
  EXPECT_EQ(fit_width("äe\u0301x", 2), "äe\u0301");
  EXPECT_EQ(fit_width("x", 0), "");
}

TEST(WithoutControls, HidesEscapesAndLineBreaks) {
  EXPECT_EQ(without_controls("a\nb\x1b[2J\x7f ü 層"), "a?b?[2J? ü 層");
  EXPECT_EQ(without_controls("\x9b"
                             "2J"),
            "?2J");
  EXPECT_EQ(without_controls("\u009b2J"), "?2J");
}

}  // namespace
}  // namespace plimsoll
