// Tests values in the words that YAML 1.1 and Python have for them, and suggestions for wrong YAML and wrong values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "job/job_testing.h"
#include "job/keys/document.h"
#include "job/keys/values.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "refusals.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

TEST(JobValues, BooleansAreThoseOfYamlAndPython) {
  const std::string base = "data.files: a.txt\n";
  for (const char* yes : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "'yes'"}) {
    EXPECT_FALSE(parsed_file(base + "model.tie_embeddings: false", {std::string("model.tie_embeddings=no")})
                     .model.decoder.tie_embeddings);
    EXPECT_TRUE(parsed_file(base + "model.attention_bias: " + yes).model.decoder.attention_bias) << yes;
    EXPECT_EQ(parsed_file(base + "gradient_checkpointing: " + yes).gradient_checkpointing, Choice::on) << yes;
  }
  for (const char* no : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}) {
    EXPECT_FALSE(parsed_file(base + "model.tie_embeddings: " + no).model.decoder.tie_embeddings) << no;
    EXPECT_EQ(parsed_file(base + "gradient_checkpointing: " + no).gradient_checkpointing, Choice::off) << no;
  }
  EXPECT_THAT(file_refusal(base + "model.tie_embeddings: 1"), HasSubstr("did you mean 'true'?"));
  EXPECT_THAT(file_refusal(base + "model.tie_embeddings: n"), HasSubstr("did you mean 'false'?"));
  EXPECT_THAT(file_refusal(base + "model.tie_embeddings: maybe"), HasSubstr("allowed: true, false"));
}

// A null that is written out is what Python's None is; a value that is missing is a mistake.
TEST(JobValues, ABudgetWithoutAUnitIsBytesAndSaysSo) {
  const Job job =
      parsed_file("data.files: a.txt\nmemory_budget: 256\nhost_memory_budget: 0\ndisk_budget: 8000000000\n");
  EXPECT_EQ(job.budget.device, 256);
  EXPECT_THAT(job.notes, ::testing::ElementsAre("job.yaml:2: memory_budget is 256 bytes; write the unit if more is "
                                                "meant, for example 256MiB"));
  EXPECT_THAT(parsed_file("data.files: a.txt\n", {"memory_budget=256MiB"}).notes, ::testing::IsEmpty());
}

TEST(JobValues, NullIsNoneWhereItIsWritten) {
  const std::string base = "data: {type: synthetic}\nmodel.type: video_llm\n";
  for (const char* none : {"none", "None", "null", "Null", "NULL", "~", "null # all", "'None'"})
    EXPECT_EQ(parsed_file(base + "data.max_frames: " + none + "\nmax_steps: 3").data.clips.max_frames, std::nullopt)
        << none;
  EXPECT_EQ(parsed_file("data: {type: synthetic, max_frames: null, validation_fraction: 0}\nmodel.type: video_llm")
                .data.clips.max_frames,
            std::nullopt);
  EXPECT_EQ(parsed_file(base, {"data.max_frames=null"}).data.clips.max_frames, std::nullopt);
  EXPECT_EQ(parsed_file(base + "max_grad_norm: ~").max_grad_norm, 0);
  EXPECT_THAT(file_refusal(base + "data.max_frames:\nmax_steps: 3"), HasSubstr("job.yaml:3: data.max_frames is empty"));
  EXPECT_THAT(file_refusal(base + "data.max_frames:\nnull_x: 3"), HasSubstr("job.yaml:4:1: unknown key 'null_x'"));
  EXPECT_THAT(file_refusal(base + "batch_size: null"), HasSubstr("batch_size is null; allowed: integer"));
  EXPECT_THAT(file_refusal(base, {"data.max_frames="}), HasSubstr("has no value"));
}

}  // namespace
}  // namespace plimsoll

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
