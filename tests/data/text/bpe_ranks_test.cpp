#include "data/text/bpe_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string parse_error(const std::string& text) {
  return user_error_of([&] { BpeRanks::parse(text, "ranks.tiktoken"); });
}

std::vector<int32_t> merged(const BpeRanks& ranks, std::string_view piece) {
  std::vector<int32_t> tokens;
  ranks.merge(piece, tokens);
  return tokens;
}

/// The definition, step by step: find the lowest-ranked adjacent pair, leftmost first, merge it, start again.
std::vector<int32_t> merged_naively(const BpeRanks& ranks, const std::string& piece) {
  std::vector<std::string> parts;
  for (char c : piece) parts.emplace_back(1, c);
  while (true) {
    int32_t best = -1;
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const int32_t rank = ranks.rank(parts[i] + parts[i + 1]);
      if (rank >= 0 && (best < 0 || rank < best)) {
        best = rank;
        at = i;
      }
    }
    if (best < 0) break;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  std::vector<int32_t> tokens;
  for (const std::string& part : parts) tokens.push_back(ranks.rank(part));
  return tokens;
}

TEST(BpeRanks, KnowsItsTokens) {
  const BpeRanks ranks = BpeRanks::parse(rank_file({"lo", "low"}), "ranks");
  EXPECT_EQ(ranks.size(), 258);
  EXPECT_EQ(ranks.rank("low"), 257);
  EXPECT_EQ(ranks.rank("ow"), -1);
  EXPECT_EQ(ranks.rank(std::string_view("\0", 1)), 0);
  EXPECT_EQ(ranks.bytes(256), "lo");
}

TEST(BpeRanks, MergesTheLowestRankFirst) {
  EXPECT_THAT(merged(BpeRanks::parse(rank_file({"lo", "low"}), "ranks"), "lowlo"), ElementsAre(257, 256));
  EXPECT_THAT(merged(BpeRanks::parse(rank_file({"ow", "lo", "low"}), "ranks"), "low"), ElementsAre(258));
  EXPECT_THAT(merged(BpeRanks::parse(rank_file({"ow", "lo"}), "ranks"), "low"), ElementsAre('l', 256));
  EXPECT_THAT(merged(BpeRanks::parse(rank_file({"aa"}), "ranks"), "aaa"), ElementsAre(256, 'a'));
}

TEST(BpeRanks, MergesAsDefinedForRandomVocabularies) {
  std::mt19937 random(1);
  for (int round = 0; round < 30; ++round) {
    const auto text = [&](size_t length) {
      std::string bytes;
      while (bytes.size() < length) bytes += static_cast<char>('a' + random() % 3);
      return bytes;
    };
    std::set<std::string> distinct;
    for (int i = 0; i < 40; ++i) distinct.insert(text(2 + random() % 4));
    std::vector<std::string> tokens(distinct.begin(), distinct.end());
    std::shuffle(tokens.begin(), tokens.end(), random);
    const BpeRanks ranks = BpeRanks::parse(rank_file(tokens), "ranks");
    for (int i = 0; i < 50; ++i) {
      const std::string piece = text(1 + random() % 60);
      ASSERT_EQ(merged(ranks, piece), merged_naively(ranks, piece)) << piece;
    }
  }
}

TEST(BpeRanks, TakesLinesInAnyOrderAndFromAnySystem) {
  std::string text = base64("lo") + " 256\r\n" + rank_file({});
  EXPECT_EQ(BpeRanks::parse(text, "ranks").rank("lo"), 256);
  text.pop_back();  // no line feed at the end
  EXPECT_EQ(BpeRanks::parse(text, "ranks").size(), 257);
}

TEST(BpeRanks, FingerprintTellsVocabulariesApart) {
  const auto fingerprint = [](const std::vector<std::string>& tokens) {
    return BpeRanks::parse(rank_file(tokens), "ranks").fingerprint();
  };
  EXPECT_EQ(fingerprint({"ab", "cde"}), fingerprint({"ab", "cde"}));
  EXPECT_NE(fingerprint({"ab", "cde"}), fingerprint({"abc", "de"}));
  EXPECT_NE(fingerprint({"ab", "cd"}), fingerprint({"cd", "ab"}));
}

TEST(BpeRanks, NamesTheLineAtFault) {
  const std::string all = rank_file({"lo"});  // 257 lines
  EXPECT_THAT(parse_error(all + "bG93\n"),
              AllOf(StartsWith("ranks.tiktoken:258: there is no space"), HasSubstr("'IQ== 0'")));
  for (const char* token : {"", "bG9", "bG9*", "=G93", "b===", "bG93bG93=", "bH=="})
    EXPECT_THAT(parse_error(all + token + std::string(" 257\n")),
                StartsWith("ranks.tiktoken:258: the token is not base64"))
        << token;
  for (const char* rank : {"", "-1", "2.5", "257x", " 257", "99999999999999999999"})
    EXPECT_THAT(parse_error(all + "bG93 " + rank + "\n"),
                StartsWith("ranks.tiktoken:258: the rank is not a whole number"))
        << rank;
  EXPECT_THAT(parse_error(all + "bG93 256\n"),
              StartsWith("ranks.tiktoken:258: rank 256 was given on line 257 already"));
  EXPECT_THAT(parse_error(all + base64("lo") + " 257\n"),
              StartsWith("ranks.tiktoken:258: the token was given on line 257"));
}

TEST(BpeRanks, NamesWhatIsMissing) {
  EXPECT_THAT(parse_error(""), HasSubstr("ranks.tiktoken: the rank file is empty"));
  EXPECT_THAT(parse_error("\n\n"), HasSubstr("is empty"));
  EXPECT_THAT(parse_error(rank_file({}) + "bG93 9000000000000\n"), HasSubstr("rank 256 is missing"));
  EXPECT_THAT(parse_error("IQ== 0\nIg== 1\n"), HasSubstr("byte 0x00 is not among the tokens"));
}

TEST(BpeRanks, NeverCrashesOnADamagedFile) {
  std::mt19937 random(2);
  const std::string good = rank_file({"lo", "low"});
  for (int round = 0; round < 300; ++round) {
    std::string text = good;
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random());
    if (round % 3 == 0) text.resize(random() % text.size());
    try {
      BpeRanks::parse(text, "ranks");
    } catch (const UserError&) {
    }
  }
}

TEST(BpeRanks, SaysWhyAFileCannotBeRead) {
  const TempFolder folder;
  EXPECT_THAT(user_error_of([] { BpeRanks::read({}); }), HasSubstr("data.tokenizer_file"));
  EXPECT_THAT(user_error_of([&] { BpeRanks::read(folder / "absent"); }), HasSubstr("absent is not a file"));
  EXPECT_THAT(user_error_of([&] { BpeRanks::read(folder.path()); }), HasSubstr("is not a file"));
  std::filesystem::resize_file(put_file(folder / "huge", ""), uint64_t{1} << 33);
  EXPECT_THAT(user_error_of([&] { BpeRanks::read(folder / "huge"); }),
              HasSubstr("has 8.00 GiB: it is not a rank file"));
  EXPECT_EQ(BpeRanks::read(put_file(folder / "good", rank_file({"lo"}))).rank("lo"), 256);
}

}  // namespace
}  // namespace plimsoll
