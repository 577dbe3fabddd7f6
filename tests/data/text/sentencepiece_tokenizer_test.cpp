#include "data/text/sentencepiece_tokenizer.h"

#include <gmock/gmock.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <random>

#include "base/hash.h"
#include "files/file_kind.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Tokens = std::vector<int32_t>;

std::string corpus() {
  std::string text;
  for (int i = 0; i < 1500; ++i)
    text += "Segment the " + std::string(i % 2 ? "left" : "right") + " hippocampus of case " +
            std::to_string(i * i % 97) + ", with  caf\xc3\xa9 and more.\n";
  return text;
}

/// Models are made once for all tests.
class SentencePieceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    put_file(*folder_ / "corpus.txt", corpus());
    make("llama",
         "--model_type=bpe --byte_fallback=true --normalization_rule_name=identity "
         "--remove_extra_whitespaces=false");
    make("unigram", "--model_type=unigram");
    make("no_end", "--model_type=bpe --eos_id=-1 --bos_id=-1");
    make("phrases", "--model_type=bpe --split_by_whitespace=false");
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static void make(const std::string& name, const std::string& options) {
    const auto status = sentencepiece::SentencePieceTrainer::Train(
        "--input=" + (*folder_ / "corpus.txt").string() + " --model_prefix=" + (*folder_ / name).string() +
        " --vocab_size=" + (name == "llama" ? "400" : "90") + " --hard_vocab_limit=false --minloglevel=4 " + options);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  static std::filesystem::path file(const std::string& name) { return *folder_ / (name + ".model"); }
  static TempFolder* folder_;
};
TempFolder* SentencePieceTest::folder_ = nullptr;

TEST_F(SentencePieceTest, GivesTheLibrarysPiecesBehindASpace) {
  const SentencePieceTokenizer tokenizer(file("llama"));
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.Load(file("llama").string()).ok());
  for (const char* text : {"Segment the left hippocampus", "caf\xc3\xa9 9", "x", "two\nlines of it", "  spaces  "}) {
    std::vector<int> expected;
    ASSERT_TRUE(library.Encode(text, &expected).ok());
    EXPECT_EQ(tokenizer.encode(std::string(" ") + text), Tokens(expected.begin(), expected.end())) << text;
  }
  EXPECT_EQ(tokenizer.vocab_size(), library.GetPieceSize());
  EXPECT_EQ(tokenizer.end_of_text(), library.eos_id());
}

TEST_F(SentencePieceTest, AnyBytesComeBackWhereThereArePiecesForBytes) {
  const SentencePieceTokenizer tokenizer(file("llama"));
  std::mt19937 random(1);
  std::vector<std::string> texts = {"",
                                    " ",
                                    "\n\n",
                                    "caf\xc3\xa9",
                                    "\xff\xfe",
                                    std::string("a\0b", 3),
                                    "\xed\xa0\x80",
                                    "\xc3",
                                    "end </s> <s> <unk>",
                                    "\xf0\x9f\x9a\xa2 ship"};
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (size_t length = random() % 40; text.size() < length;)
      text += random() % 3 == 0 ? static_cast<char>(random()) : "the left box\n"[random() % 13];
    texts.push_back(text);
  }
  for (const std::string& text : texts) {
    const Tokens tokens = tokenizer.encode(text);
    EXPECT_EQ(tokenizer.decode(tokens), text);
    for (int32_t token : tokens) EXPECT_NE(token, tokenizer.end_of_text());
  }
}

TEST_F(SentencePieceTest, ATextMayBeCutWhereItSays) {
  for (const char* name : {"llama", "unigram"}) {
    const SentencePieceTokenizer tokenizer(file(name));
    std::mt19937 random(2);
    const std::string text = corpus().substr(0, 3000);
    for (int i = 0; i < 40; ++i) {
      const size_t begin = random() % 2000, length = random() % 400;
      const std::string part = text.substr(begin, length), more = text.substr(begin + length, 50);
      const size_t cut = tokenizer.last_cut(part);
      Tokens whole = tokenizer.encode(part + more), pieces = tokenizer.encode(part.substr(0, cut));
      const Tokens rest = tokenizer.encode(part.substr(cut) + more);
      pieces.insert(pieces.end(), rest.begin(), rest.end());
      EXPECT_EQ(pieces, whole) << name << " " << begin << " " << cut;
    }
    EXPECT_GT(tokenizer.last_cut("one two three"), 0u);
  }
  EXPECT_EQ(SentencePieceTokenizer(file("phrases")).last_cut("the left hippocampus"), 0u);
}

/// A piece of a model file with a score (sentencepiece_model.proto).
std::string scored_piece(const std::string& text, float score, char type) {
  std::string inner = "\x0a" + std::string(1, static_cast<char>(text.size())) + text + "\x15";
  inner.append(reinterpret_cast<const char*>(&score), sizeof score);
  inner += std::string("\x18") + type;
  return "\x0a" + std::string(1, static_cast<char>(inner.size())) + inner;
}

// The library adds scores in float32: behind a large sum it would not see that "b" and "c" are better than "bc".
TEST(SentencePiece, TokensOfAWordDoNotDependOnTheTextBeforeIt) {
  const std::string space = "\xe2\x96\x81";
  const TempFolder folder;
  const std::filesystem::path file =
      put_file(folder / "scored.model", scored_piece("<unk>", 0, 2) + scored_piece("a", -1e9f, 1) +
                                            scored_piece(space, -1, 1) + scored_piece("bc", -2, 1) +
                                            scored_piece("b", -0.5f, 1) + scored_piece("c", -0.5f, 1));
  const SentencePieceTokenizer tokenizer(file);
  const Tokens alone = tokenizer.encode(" bc");
  EXPECT_EQ(alone, (Tokens{2, 4, 5}));
  EXPECT_EQ(tokenizer.last_cut("a bc"), 1u);
  EXPECT_EQ(tokenizer.encode("a bc"), (Tokens{1, 2, 4, 5}));
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.Load(file.string()).ok());
  std::vector<int> alike, behind_a;
  ASSERT_TRUE(library.Encode("bc", &alike).ok() && library.Encode("a bc", &behind_a).ok());
  EXPECT_NE(Tokens(alike.end() - 2, alike.end()), Tokens(behind_a.end() - 2, behind_a.end()));
}

// Adjacent unknown characters are one token, and a space may be one of them.
TEST(SentencePiece, ATextIsNotCutAtASpaceThatNoPieceHas) {
  const auto piece = [](const std::string& text, char type) {
    const std::string inner = "\x0a" + std::string(1, static_cast<char>(text.size())) + text + "\x18" + type;
    return "\x0a" + std::string(1, static_cast<char>(inner.size())) + inner;
  };
  const std::string known = piece("<unk>", 2) + piece("a", 1), space = "\xe2\x96\x81";
  const TempFolder folder;
  const SentencePieceTokenizer without(put_file(folder / "without.model", known));
  EXPECT_EQ(without.encode("ab cd").size(), 2u);
  EXPECT_EQ(without.last_cut("ab cd"), 0u);
  const SentencePieceTokenizer with(put_file(folder / "with.model", known + piece(space, 1)));
  EXPECT_EQ(with.encode("ab cd").size(), 4u);
  EXPECT_EQ(with.last_cut("ab cd"), 2u);
}

// The library takes about 100 bytes a byte: a text without a place to cut is cut all the same, at a line or a
// character, and a text that comes in parts is cut at the same places.
TEST_F(SentencePieceTest, ALongStretchWithoutAPlaceToCutIsCut) {
  const SentencePieceTokenizer tokenizer(file("llama"));
  constexpr size_t kStretch = size_t{1} << 20;
  std::string accents;
  while (accents.size() < kStretch + 5000) accents += "é";  // two bytes each
  const std::string lines = std::string(700'000, 'x') + "\n" + std::string(700'000, 'y');
  // A mebibyte ends within a character.
  for (const std::string& text : {std::string(2 * kStretch + 17, 'x'), "x" + accents, lines}) {
    ASSERT_EQ(tokenizer.last_cut(text), 0u);
    const Tokens whole = tokenizer.encode(text);
    EXPECT_EQ(tokenizer.decode(whole), text);
    Tokens parts = tokenizer.encode("the left box");
    const Tokens rest = tokenizer.encode(" " + text);
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(tokenizer.encode("the left box " + text), parts);
  }
  // The cut is behind the line break, or within a word, which is no piece then.
  std::string words = "x";
  while (words.size() < kStretch + 4000) words += "left";
  for (const auto& [text, at] : {std::pair(lines, size_t{700'001}), std::pair(words, kStretch)}) {
    Tokens cut = tokenizer.encode(text.substr(0, at));
    const Tokens rest = tokenizer.encode(text.substr(at));
    cut.insert(cut.end(), rest.begin(), rest.end());
    EXPECT_EQ(tokenizer.encode(text), cut);
  }
}

TEST_F(SentencePieceTest, AModelWithoutAnEndGetsOne) {
  const SentencePieceTokenizer tokenizer(file("no_end"));
  EXPECT_EQ(tokenizer.end_of_text(), tokenizer.vocab_size() - 1);
  EXPECT_EQ(tokenizer.decode(Tokens{tokenizer.end_of_text()}), "");
  EXPECT_THAT(user_error_of([&] { tokenizer.decode(Tokens{static_cast<int32_t>(tokenizer.vocab_size())}); }),
              HasSubstr("is not in the vocabulary"));
  EXPECT_THAT(user_error_of([&] { tokenizer.decode(Tokens{-1}); }), HasSubstr("token -1"));
}

TEST_F(SentencePieceTest, TheFilesBesideATokenizerModelNameItsEnd) {
  const TempFolder folder;
  const auto model = put_file(folder / "tokenizer.model", get_file(file("llama")));
  const SentencePieceTokenizer plain(model);
  put_file(folder / "tokenizer_config.json", R"({"eos_token": "<s>"})");
  const SentencePieceTokenizer named(model);
  EXPECT_NE(named.end_of_text(), plain.end_of_text());
  EXPECT_EQ(named.vocab_size(), plain.vocab_size());
  EXPECT_NE(named.fingerprint(), plain.fingerprint());
  put_file(folder / "tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_EQ(SentencePieceTokenizer(model).fingerprint(), plain.fingerprint());
  put_file(folder / "tokenizer_config.json", R"({"eos_token": "<nowhere>"})");
  EXPECT_THAT(user_error_of([&] { SentencePieceTokenizer{model}; }),
              AllOf(HasSubstr("eos_token is '<nowhere>'"), HasSubstr("no such token")));
  EXPECT_EQ(SentencePieceTokenizer(put_file(folder / "mine.model", get_file(model))).end_of_text(),
            plain.end_of_text());
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  SentencePieceTokenizer{file("llama")};
  EXPECT_THAT(notes.lines(), ::testing::IsEmpty());
  SentencePieceTokenizer{file("no_end")};
  EXPECT_THAT(notes.lines(), ::testing::ElementsAre(HasSubstr("names no end of text")));
}

TEST_F(SentencePieceTest, DifferentModelsHaveDifferentFingerprints) {
  EXPECT_NE(SentencePieceTokenizer(file("llama")).fingerprint(), SentencePieceTokenizer(file("unigram")).fingerprint());
  EXPECT_EQ(make_tokenizer("sentencepiece", file("llama"))->fingerprint(),
            SentencePieceTokenizer(file("llama")).fingerprint());
}

// Token files from before texts were encoded word by word have other tokens.
TEST_F(SentencePieceTest, HasAnotherFingerprintThanTheFirstEncoding) {
  EXPECT_NE(SentencePieceTokenizer(file("unigram")).fingerprint(),
            hash_bytes(get_file(file("unigram")), hash_bytes("sentencepiece")));
}

// A file of the system says more bytes than it has, as a file does that is cut after its size was read.
TEST(SentencePiece, AShortReadIsAnError) {
  const std::filesystem::path file = "/sys/devices/system/cpu/online";
  std::error_code error;
  if (std::filesystem::file_size(file, error) < 1000 || error) GTEST_SKIP() << "the system has no such file";
  EXPECT_THAT(user_error_of([&] { SentencePieceTokenizer{file}; }),
              HasSubstr(file.string() + ": it had 4096 bytes when it was opened, and has lost some of them"));
}

TEST_F(SentencePieceTest, RefusesOtherFilesWithoutPrinting) {
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  const auto refusal = [&](const std::string& bytes) {
    return user_error_of([&] { SentencePieceTokenizer(put_file(*folder_ / "bad.model", bytes)); });
  };
  EXPECT_THAT(refusal("hello"), HasSubstr("bad.model: is not a SentencePiece model"));
  EXPECT_THAT(refusal(""), HasSubstr("it is empty"));
  EXPECT_THAT(user_error_of([&] { SentencePieceTokenizer(*folder_ / "none.model"); }), HasSubstr("cannot read"));
  const std::string good = get_file(file("llama"));
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {  // truncated or changed: a tokenizer or a refusal, never more
    std::string bytes = i % 2 ? good : good.substr(0, random() % good.size());
    if (i % 2)
      for (int j = 0; j < 5; ++j) bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      SentencePieceTokenizer(put_file(*folder_ / "bad.model", bytes)).encode("the left box");
    } catch (const UserError&) {
    }
  }
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace plimsoll
