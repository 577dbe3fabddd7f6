#include "data/text/sentencepiece_check.h"

#include <gmock/gmock.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <cmath>
#include <cstring>
#include <random>

#include "data/text/sentencepiece_tokenizer.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

std::string varint(uint64_t number) {
  std::string text;
  for (; number >= 0x80; number >>= 7) text += static_cast<char>((number & 0x7f) | 0x80);
  return text + static_cast<char>(number);
}
/// A field of bytes.
std::string field(uint64_t number, const std::string& value) {
  return varint(number << 3 | 2) + varint(value.size()) + value;
}
std::string whole(uint64_t number, uint64_t value) {
  return varint(number << 3) + varint(value);
}
std::string score(float value) {
  std::string text = varint(2 << 3 | 5) + "....";
  std::memcpy(text.data() + 1, &value, 4);
  return text;
}
std::string piece(const std::string& text, uint64_t type = 1, float value = 0) {
  return field(1, field(1, text) + score(value) + whole(3, type));
}
std::string unit(uint32_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string charsmap(const std::vector<uint32_t>& units, const std::string& replacements) {
  std::string text = unit(static_cast<uint32_t>(units.size() * 4));
  for (const uint32_t each : units) text += unit(each);
  return text + replacements;
}

constexpr uint32_t kLeaf = 1u << 8;
uint32_t node(uint32_t label, uint32_t offset, uint32_t leaf = 0) {
  return offset << 10 | leaf | label;
}
/// Returns a charsmap in which "a" becomes the replacement at `value`: the root's children are in block 1, the leaf in
/// block 2.
std::vector<uint32_t> one_rule(uint32_t value) {
  std::vector<uint32_t> units(3 * 256, 1u << 31);
  units[0] = node(0, 256);
  units[256 ^ 'a'] = node('a', (256 ^ 'a') ^ 512, kLeaf);
  units[512] = 1u << 31 | value;
  return units;
}

TEST(CharsmapCheck, RulesInsideOfTheBytesPass) {
  using namespace std::literals;
  EXPECT_EQ(charsmap_problem(charsmap(one_rule(0), "b\0"s)), "");
  EXPECT_EQ(charsmap_problem(charsmap(one_rule(2), "b\0cd\0"s)), "");
}

TEST(CharsmapCheck, DamagedOnesAreRefused) {
  using namespace std::literals;
  EXPECT_THAT(charsmap_problem("ab"), HasSubstr("no size"));
  EXPECT_THAT(charsmap_problem(unit(1000) + "abc"), HasSubstr("1000 bytes, and 3 are left"));
  EXPECT_THAT(charsmap_problem(unit(0)), HasSubstr("whole blocks"));
  EXPECT_THAT(charsmap_problem(unit(3) + "abc"), HasSubstr("whole units"));
  EXPECT_THAT(charsmap_problem(charsmap(one_rule(2), "b\0"s)), HasSubstr("replacement at byte 2"));
  EXPECT_THAT(charsmap_problem(charsmap(one_rule(0), "b"s)), HasSubstr("does not end"));
  EXPECT_THAT(charsmap_problem(charsmap(one_rule(0), "\xc3\0"s)), HasSubstr("UTF-8"));
  EXPECT_THAT(charsmap_problem(charsmap(one_rule(0), std::string(17, 'b') + "\0"s)), HasSubstr("1 bytes by 17"));
  std::vector<uint32_t> units = one_rule(0);
  units[0] = node(0, 768);
  EXPECT_THAT(charsmap_problem(charsmap(units, "b\0"s)), HasSubstr("leads to unit 768 of 768"));
  units = one_rule(0);
  units[256 ^ 'a'] = node('a', (256 ^ 'a') ^ 1024, kLeaf);
  EXPECT_THAT(charsmap_problem(charsmap(units, "b\0"s)), HasSubstr("leads to unit 1024"));
  units[256 ^ 'a'] = node('a', 'a');  // back to the root's children
  EXPECT_THAT(charsmap_problem(charsmap(units, "b\0"s)), HasSubstr("cycle"));
}

TEST(CharsmapCheck, KeysThatBeginOneAnotherAreCounted) {
  const auto chain = [](uint32_t length) {
    std::vector<uint32_t> units((length + 2) * 256, 1u << 31);
    units[0] = node(0, 256);
    for (uint32_t i = 1; i <= length; ++i) {
      units[(256 * i) ^ 'a'] = node('a', ((256 * i) ^ 'a') ^ (256 * (i + 1)), kLeaf);
      units[256 * (i + 1)] = 1u << 31;
    }
    return charsmap(units, std::string("b\0", 2));
  };
  EXPECT_EQ(charsmap_problem(chain(32)), "");
  EXPECT_THAT(charsmap_problem(chain(33)), HasSubstr("more than 32 of its keys"));
}

TEST(SentencePieceCheck, PiecesAreChecked) {
  const auto problem = [](const std::string& text) { return sentencepiece_model_problem(text); };
  EXPECT_EQ(problem(piece("<unk>", 2) + piece("a")), "");
  EXPECT_THAT(problem(""), HasSubstr("no pieces"));
  EXPECT_THAT(problem(piece("")), HasSubstr("piece 0 has 0 bytes"));
  EXPECT_THAT(problem(piece("a") + piece(std::string(200'000, 'a'))), HasSubstr("piece 1 has 200000 bytes"));
  EXPECT_THAT(problem(piece(std::string("a\0b", 3))), HasSubstr("zero bytes"));
  EXPECT_THAT(problem(piece("\xc3")), HasSubstr("UTF-8"));
  EXPECT_THAT(problem(piece("a", 7)), HasSubstr("type 7"));
  EXPECT_THAT(problem(piece("a", 1, NAN)), HasSubstr("not finite"));
  EXPECT_THAT(problem(piece("a") + field(4, std::string(70'000, 'x'))), HasSubstr("self tests"));
  EXPECT_THAT(problem(piece("a") + "\x0a\x7f"), HasSubstr("127 bytes, and 0 are left"));
  EXPECT_THAT(problem(piece("a") + "\x0b"), HasSubstr("wire type 3"));
  EXPECT_THAT(problem(std::string(20, '\xff')), HasSubstr("does not end"));
  EXPECT_THAT(problem(piece("a") + field(3, field(2, "ab"))), HasSubstr("precompiled_charsmap"));
  EXPECT_THAT(problem(piece("a") + field(5, field(2, "ab"))), HasSubstr("precompiled_charsmap"));
  std::string nested = piece("<unk>", 2);
  for (size_t i = 1; i <= 64; ++i) nested += piece(std::string(i, 'a'), 4);
  EXPECT_EQ(problem(nested), "");
  EXPECT_THAT(problem(nested + piece(std::string(65, 'a'), 4)), HasSubstr("more than 64 of its symbols"));
}

// For any damage in a model of the library's own trainer, it is rejected, or a text is encoded.
TEST(SentencePieceCheck, DamagedModelsCrashNothing) {
  const TempFolder folder;
  std::string corpus;
  for (int i = 0; i < 800; ++i) corpus += "Segment the left hippocampus of case " + std::to_string(i * i % 97) + ".\n";
  put_file(folder / "corpus.txt", corpus);
  ASSERT_TRUE(sentencepiece::SentencePieceTrainer::Train("--input=" + (folder / "corpus.txt").string() +
                                                         " --model_prefix=" + (folder / "m").string() +
                                                         " --vocab_size=60 --hard_vocab_limit=false --minloglevel=4")
                  .ok());
  const std::string good = get_file(folder / "m.model");
  ASSERT_EQ(sentencepiece_model_problem(good), "");  // with the charsmap of NFKC
  ASSERT_GT(good.size(), 100'000u);
  std::mt19937 random(11);
  int refused = 0, read = 0;
  for (int round = 0; round < 60; ++round) {
    std::string bad = good;
    for (int i = 0; i < 1 << (round % 8); ++i) bad[random() % bad.size()] = static_cast<char>(random());
    const std::filesystem::path file = put_file(folder / "bad.model", bad);
    try {
      SentencePieceTokenizer(file).encode("Segment \u00bd \ufdfa \u3000 \u1f71 caf\u00e9 \uac00\u11a8 \u0958 ﬁ");
      ++read;
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace plimsoll
