#include "base/text_width.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

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
