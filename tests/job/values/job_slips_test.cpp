// Tests suggestions for wrong YAML and wrong values.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "job/values/suggestions.h"
#include "job/values/yaml_diagnostics.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "refusals.h"

namespace plimsoll::job {
namespace {

TEST(NumberMeant, IsWhatPeopleWrite) {
  EXPECT_EQ(parse_informal_number("5%"), 0.05);
  EXPECT_EQ(parse_informal_number("0,001"), 0.001);
  EXPECT_EQ(parse_informal_number("1,000"), 1000);
  EXPECT_EQ(parse_informal_number("12,345,678"), 12345678);
  EXPECT_EQ(parse_informal_number("1_000"), 1000);
  EXPECT_EQ(parse_informal_number("10k"), 10000);
  EXPECT_EQ(parse_informal_number("2M"), 2e6);
  EXPECT_EQ(parse_informal_number("1e3"), 1000);
  for (const char* none : {"", "k", "%", ",", "1,2,3", "1,00,000", "many", "nan", "1e999", "0x10", "1,000,00"})
    EXPECT_EQ(parse_informal_number(none), std::nullopt) << none;
}

TEST(YamlDiagnostics, SayWhereTheSlipIsAndNotWhereItWasNoticed) {
  const auto slip = [](const std::string& text, int line) {
    const auto found = diagnose_yaml(text, line);
    return found ? std::to_string(found->line) + ": " + found->what : "";
  };
  EXPECT_EQ(slip("a: 1\n\tb: 2\n", 2), "2: the line is indented with a tab; YAML takes spaces alone");
  EXPECT_EQ(slip("a: {b: 1\nc: 2\nd: 3\n", 3), "1: the { that opens here is not closed");
  EXPECT_EQ(slip("a: [1, 2\n# ]\nb: 2\n", 3), "1: the [ that opens here is not closed") << "a comment closes nothing";
  EXPECT_EQ(slip("a: {b: 'x}\nc: 2\n", 2), "1: the ' that opens here is not closed");
  EXPECT_EQ(slip("a:1\n\n# c\nb: 2\n", 4), "1: a space is missing behind the colon: write a: 1");
  EXPECT_EQ(slip("a 1\nb: 2\n", 2), "1: a colon is missing: write a: 1");
  EXPECT_EQ(slip("a: it's\nb: http://x\n  c: 1\n", 3).substr(0, 34), "3: the line is indented further th");
  EXPECT_EQ(slip("a: 1\nb: 2\n", 2), "") << "nothing is wrong that is seen here";
}

TEST(YamlDiagnostics, QuotesThatEnd) {
  EXPECT_TRUE(quote_is_closed("a: 'b'", 1, 4));
  EXPECT_TRUE(quote_is_closed("a: 'it''s'", 1, 4));
  EXPECT_TRUE(quote_is_closed("a: \"b\\\"c\"", 1, 4));
  EXPECT_TRUE(quote_is_closed("a: 'b\n  c'", 1, 4));
  EXPECT_FALSE(quote_is_closed("a: 'b", 1, 4));
  EXPECT_FALSE(quote_is_closed("a: 'it''", 1, 4));
  EXPECT_FALSE(quote_is_closed("a: \"b\\\"", 1, 4));
  EXPECT_FALSE(quote_is_closed("\xc3\xa4\xc3\xb6: 'b", 1, 7)) << "columns count bytes";
  EXPECT_TRUE(quote_is_closed("\xc3\xa4\xc3\xb6: 'b'", 1, 7));
  EXPECT_TRUE(quote_is_closed("a: b", 9, 9)) << "no such place";
}

// For any text there is a suggestion that names a line of it, or none.
TEST(YamlDiagnostics, SurviveRandomText) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string letters = "ab:1 ,{}[]\"'\\#-\n\n\t=*|\r\xc3\xa4";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t length = random() % 40; length > 0; --length) text += letters[random() % letters.size()];
    const int lines = 1 + static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    const auto slip = diagnose_yaml(text, 1 + static_cast<int>(random() % 50));
    if (slip) {
      EXPECT_GE(slip->line, 1);
      EXPECT_LE(slip->line, lines) << text;
      EXPECT_EQ(slip->what.find('\n'), std::string::npos);
    }
    quote_is_closed(text, static_cast<int>(random() % 9), static_cast<int>(random() % 9));
    not_text(text);
  }
}

TEST(ParseBytes, UnitsThatAreNoneAreAnsweredWithBoth) {
  const auto message = [](const char* text) { return refusal_of([&] { parse_bytes(text); }); };
  for (const char* text : {"8G", "8g", "8 gig", "8GBytes", "8gigabytes", "8 gigabyte", "8Gibs"})
    EXPECT_TRUE(message(text).ends_with("; did you mean 8GiB or 8GB?")) << message(text);
  EXPECT_TRUE(message("50%").ends_with("; a share is not taken: state the amount"));
  for (const char* text : {"G", "lots", "8x", "-8G", "99999999999999G"})
    EXPECT_EQ(message(text).find("did you mean"), std::string::npos) << message(text);
}

}  // namespace
}  // namespace plimsoll::job
