#include "data/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "test_files.h"

namespace plimsoll {
namespace {

using namespace std::string_view_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tokens = std::vector<int32_t>;

const std::filesystem::path kGpt2Ranks = PLIMSOLL_SOURCE_DIR "/.data/gpt2.tiktoken";

/// The tokenizer of the merges that the tests below speak of.
std::unique_ptr<Tokenizer> small_tokenizer() {
  const TempFolder folder;
  std::vector<std::string> merges = {"lo", "low", " low", "'s", "  ", "\n\n", "é"};
  // Each pair across a border of the pattern is a token: a cut in the wrong place shows in the tokens. The last are the
  // ends of U+00A0, U+2003, U+3000 and U+0085 with a blank.
  for (const char* pair :
       {"a1",  "1a",  "a ",  "a.", ".a",    ". ",     " a",    " 1",     " .",    "a'",     "1.",    ".1",
        "\n ", " \n", "a\n", "s1", "\xa0 ", "\xa0\n", "\x83 ", "\x83\n", "\x80 ", "\x80\n", "\x85 ", "\x85\n"})
    merges.push_back(pair);
  return make_tokenizer("gpt2", put_file(folder / "ranks", rank_file(merges)));
}

/// Text of the bytes and characters at which tokenizers trip, cut short anywhere.
std::string random_text(std::mt19937& random, size_t pieces) {
  constexpr std::string_view parts[] = {
      " ",  "  ",     "\n",     "\t",     "'",      "'s",     "'ll",  "low",  "a",        "1",    ".",    "é",   "中",
      "。", "\u00a0", "\u2003", "\u3000", "\u0085", "\u180e", "🙂", "\xff", "\xe2\x80", "\xc3", "\x80", "\xa0"};
  std::string text;
  for (size_t i = 0; i < pieces; ++i) text += parts[random() % std::size(parts)];
  if (random() % 2 == 0) text += static_cast<char>(random());
  return text;
}

void expect_round_trips(const Tokenizer& tokenizer) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::string text = random_text(random, random() % 20);
    if (round % 2 == 0)
      for (char& c : text) c = static_cast<char>(random());
    const Tokens tokens = tokenizer.encode(text);
    ASSERT_EQ(tokenizer.decode(tokens), text);
    for (int32_t token : tokens) ASSERT_TRUE(token >= 0 && token < tokenizer.end_of_text());
  }
}

/// Expects that cutting at last_cut() changes no token.
void expect_cuts_are_safe(const Tokenizer& tokenizer) {
  std::mt19937 random(4);
  int cuts = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_text(random, 2 + random() % 10);
    const std::string more = random_text(random, random() % 4);
    const size_t cut = tokenizer.last_cut(text);
    ASSERT_LE(cut, text.size());
    cuts += cut > 0;
    Tokens parts = tokenizer.encode(std::string_view(text).substr(0, cut));
    const Tokens rest = tokenizer.encode(text.substr(cut) + more);
    parts.insert(parts.end(), rest.begin(), rest.end());
    ASSERT_EQ(parts, tokenizer.encode(text + more)) << ::testing::PrintToString(text) << " cut at " << cut;
  }
  EXPECT_GT(cuts, 500);
}

TEST(ByteTokenizer, IsTheBytes) {
  const auto tokenizer = make_tokenizer("bytes", {});
  EXPECT_THAT(tokenizer->encode("A\xff\0"sv), ElementsAre(65, 255, 0));
  EXPECT_EQ(tokenizer->vocab_size(), 257);
  EXPECT_EQ(tokenizer->end_of_text(), 256);
  EXPECT_EQ(tokenizer->name(), "bytes");
  EXPECT_EQ(tokenizer->decode(Tokens{65, 256, 66}), "AB");
  EXPECT_THAT(user_error_of([&] { tokenizer->decode(Tokens{257}); }), HasSubstr("token 257 is not in the vocabulary"));
  EXPECT_THAT(user_error_of([&] { tokenizer->decode(Tokens{-1}); }), HasSubstr("token -1"));
  expect_round_trips(*tokenizer);
  expect_cuts_are_safe(*tokenizer);
}

TEST(MakeTokenizer, NamesWhatIsAllowed) {
  EXPECT_THAT(user_error_of([] { make_tokenizer("gpt3", {}); }),
              AllOf(HasSubstr("'gpt3'"), HasSubstr("bytes, gpt2, sentencepiece, gguf and huggingface")));
}

TEST(Gpt2Tokenizer, MergesWithinPiecesOnly) {
  const auto tokenizer = small_tokenizer();
  EXPECT_THAT(tokenizer->encode("low low"), ElementsAre(257, 258));
  EXPECT_THAT(tokenizer->encode("low's"), ElementsAre(257, 259));
  EXPECT_THAT(tokenizer->encode("a1"), ElementsAre('a', '1'));              // letters, then digits
  EXPECT_THAT(tokenizer->encode("a.a"), ElementsAre('a', '.', 'a'));        // letters, then neither
  EXPECT_THAT(tokenizer->encode("'s1"), ElementsAre(259, '1'));             // a contraction ends
  EXPECT_THAT(tokenizer->encode("\n low"), ElementsAre('\n', 258));         // a word takes the space before it
  EXPECT_THAT(tokenizer->encode("low   low"), ElementsAre(257, 260, 258));  // … and leaves the others
  EXPECT_THAT(tokenizer->encode("\n\nlow"), ElementsAre('\n', '\n', 257));  // the last blank is a separate piece
  EXPECT_THAT(tokenizer->encode("low\n\n"), ElementsAre(257, 261));         // … unless the text ends
  EXPECT_THAT(tokenizer->encode("\xff\xc3\xa9"), ElementsAre(255, 262));    // no UTF-8, then "é"
  EXPECT_EQ(tokenizer->vocab_size(), 256 + 7 + 24 + 1);
  EXPECT_EQ(tokenizer->end_of_text(), 256 + 7 + 24);
  EXPECT_EQ(tokenizer->decode(Tokens{257, tokenizer->end_of_text(), 258}), "low low");
  EXPECT_THAT(user_error_of([&] { tokenizer->decode(Tokens{288}); }), HasSubstr("0 to 287"));
}

TEST(Gpt2Tokenizer, RoundTripsAnyBytes) {
  expect_round_trips(*small_tokenizer());
}

TEST(Gpt2Tokenizer, MayBeCutWhereItSays) {
  expect_cuts_are_safe(*small_tokenizer());
}

TEST(Gpt2Tokenizer, IsNeverCutInsideWhiteSpace) {
  const auto tokenizer = small_tokenizer();
  for (const std::string blank : {"\t",     "\v",     "\f",     "\r",     "\u0085", "\u00a0", "\u1680", "\u2000",
                                  "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008",
                                  "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"}) {
    EXPECT_EQ(tokenizer->last_cut("low" + blank + " low"), 0u) << ::testing::PrintToString(blank);
    EXPECT_EQ(tokenizer->last_cut("low low" + blank + " low"), 3u) << ::testing::PrintToString(blank);
  }
  EXPECT_EQ(tokenizer->last_cut("中 low"), 3u);
}

TEST(Gpt2Tokenizer, TakesVeryLongRuns) {
  const auto tokenizer = small_tokenizer();
  for (const std::string_view unit : {"a", " ", "1", ".", "\xff", "\u3000", "é"}) {
    std::string text;
    for (int i = 0; i < 200'000; ++i) text += unit;
    for (const char* end : {"", "x", "."}) {
      const std::string whole = text + end;
      EXPECT_TRUE(tokenizer->decode(tokenizer->encode(whole)) == whole) << ::testing::PrintToString(unit) << " " << end;
    }
  }
}

TEST(Gpt2Tokenizer, ServesSeveralThreads) {
  const auto tokenizer = small_tokenizer();
  std::mt19937 random(5);
  std::vector<std::string> texts;
  std::vector<Tokens> expected;
  for (int i = 0; i < 100; ++i) {
    texts.push_back(random_text(random, 50));
    expected.push_back(tokenizer->encode(texts.back()));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(tokenizer->encode(texts[i]), expected[i]);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Tokenizers, FingerprintsDiffer) {
  const TempFolder folder;
  const auto one = make_tokenizer("gpt2", put_file(folder / "1", rank_file({"lo"})));
  const auto other = make_tokenizer("gpt2", put_file(folder / "2", rank_file({"ow"})));
  EXPECT_NE(one->fingerprint(), other->fingerprint());
  EXPECT_NE(one->fingerprint(), make_tokenizer("bytes", {})->fingerprint());
  EXPECT_EQ(one->fingerprint(), make_tokenizer("gpt2", folder / "1")->fingerprint());
}

/// Uses GPT-2's own vocabulary, if scripts/prepare-text.sh has fetched it.
class RealGpt2Tokenizer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kGpt2Ranks)) GTEST_SKIP() << "run scripts/prepare-text.sh for .data/gpt2.tiktoken";
    tokenizer_ = make_tokenizer("gpt2", kGpt2Ranks);
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

struct Known {
  std::string_view text;
  Tokens tokens;
};

// From tiktoken 0.14.0 with the same ranks and GPT-2's pattern.
const Known kKnown[] = {
    {""sv, {}},
    {"Hello world"sv, {15496, 995}},
    {"Hello, world!"sv, {15496, 11, 995, 0}},
    {" Hello"sv, {18435}},
    {"hello  world"sv, {31373, 220, 995}},
    {"\012\012\011indented\012"sv, {628, 197, 521, 4714, 198}},
    {"trailing space "sv, {9535, 4386, 2272, 220}},
    {"   "sv, {220, 220, 220}},
    {"a   b"sv, {64, 220, 220, 275}},
    {"I'll say it's what they've done; we're sure he'd go, I'm not"sv,
     {40, 1183, 910, 340, 338, 644, 484, 1053, 1760, 26, 356, 821, 1654, 339, 1549, 467, 11, 314, 1101, 407}},
    {"I'LL SHOUT'S"sv, {40, 6, 3069, 6006, 12425, 6, 50}},
    {"don't"sv, {9099, 470}},
    {"1234567 3.14"sv, {10163, 2231, 3134, 513, 13, 1415}},
    {"x=1+2;"sv, {87, 28, 16, 10, 17, 26}},
    {"na\303\257ve caf\303\251"sv, {2616, 38776, 40304}},
    {"\346\227\245\346\234\254\350\252\236\343\201\256\343\203\206\343\202\255\343\202\271\343\203\210"sv,
     {33768, 98, 17312, 105, 45739, 252, 5641, 24336, 25084, 43302}},
    {"\320\237\321\200\320\270\320\262\320\265\321\202, \320\274\320\270\321\200"sv,
     {140, 253, 21169, 18849, 38857, 16843, 20375, 11, 12466, 120, 18849, 21169}},
    {"\331\205\330\261\330\255\330\250\330\247 \330\250\330\247\331\204\330\271\330\247\331\204\331\205"sv,
     {25405, 26897, 148, 255, 39848, 12919, 17550, 101, 23525, 44690, 23525, 25405}},
    {"\360\237\231\202\360\237\221\251\342\200\215\360\237\221\251\342\200\215\360\237\221\247"sv,
     {8582, 25081, 41840, 102, 447, 235, 41840, 102, 447, 235, 41840, 100}},
    {"e\314\201"sv, {68, 136, 223}},
    {"\302\240nbsp\302\240"sv, {1849, 77, 24145, 1849}},
    {"\341\240\216Mongolian"sv, {157, 254, 236, 44, 506, 349, 666}},
    {"a\342\200\203b"sv, {64, 447, 225, 65}},
    {"ideographic\343\200\200space"sv, {485, 6826, 5099, 222, 13200}},
    {"line\342\200\250separator"sv, {1370, 447, 101, 25512, 1352}},
    {"zero\342\200\213width"sv, {22570, 9525, 10394}},
    {"\302\275 \302\262"sv, {23141, 1587, 110}},
    {"_snake_case_name__"sv, {62, 16184, 539, 62, 7442, 62, 3672, 834}},
    {"https://example.com/?q=1&r=2"sv, {5450, 1378, 20688, 13, 785, 20924, 80, 28, 16, 5, 81, 28, 17}},
    {"\000\001"sv, {188, 189}},
    {"\015\012\015\012"sv, {201, 198, 201, 198}},
    {" \012  x"sv, {220, 198, 220, 2124}},
    {"indivisible supercalifragilisticexpialidocious"sv,
     {521, 452, 12843, 2208, 9948, 361, 22562, 346, 396, 501, 42372, 498, 312, 32346}},
    {"<|endoftext|>"sv, {27, 91, 437, 1659, 5239, 91, 29}},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"sv,
     {24794, 24794, 24794, 24794, 24794, 24794, 24794, 24794, 24794, 24794, 24794, 24794, 24794, 24794, 24794, 24794,
      24794, 7252}},
    {"\357\277\275"sv, {4210}},
};

TEST_F(RealGpt2Tokenizer, GivesTheKnownTokens) {
  EXPECT_EQ(tokenizer_->vocab_size(), 50257);
  EXPECT_EQ(tokenizer_->end_of_text(), 50256);
  for (const Known& known : kKnown) {
    EXPECT_EQ(tokenizer_->encode(known.text), known.tokens) << ::testing::PrintToString(known.text);
    EXPECT_EQ(tokenizer_->decode(known.tokens), known.text);
  }
}

TEST_F(RealGpt2Tokenizer, RoundTripsAndMayBeCut) {
  expect_round_trips(*tokenizer_);
  expect_cuts_are_safe(*tokenizer_);
}

}  // namespace
}  // namespace plimsoll
