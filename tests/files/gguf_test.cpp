#include "files/gguf.h"

#include <gmock/gmock.h>

#include <random>

#include "data/text/gpt2_tokenizer.h"
#include "files/file_kind.h"
#include "files/gguf_file.h"
#include "test_files.h"
#include "weights/source.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string floats(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

GgufText sample() {
  GgufText text;
  text.word("general.architecture", "llama").whole("llama.block_count", 7).number("llama.rope.freq_base", 1e5f);
  text.entry("wide", 10, GgufText::bytes<uint64_t>(~uint64_t{0})).entry("byte", 1, GgufText::bytes<int8_t>(-3));
  text.words("tokens", {"a", "", "long token"});
  text.tensor("matrix", {2, 3}, 0, floats({1, 2, 3, 4, 5, 6}));
  text.tensor("vector", {3}, 1, std::string("\0\x3c\0\x40\0\xc2", 6));  // 1, 2, -3 in float16
  return text;
}

class GgufTest : public ::testing::Test {
 protected:
  std::string refusal(const std::string& text) {
    put_file(folder_ / "model.gguf", text);
    return user_error_of([&] { GgufFile::open(folder_ / "model.gguf"); });
  }
  GgufFile open(const std::string& text) { return GgufFile::open(put_file(folder_ / "model.gguf", text)); }

  TempFolder folder_;
};

TEST_F(GgufTest, ReadsMetadataAndTensors) {
  for (const uint32_t version : {2, 3}) {
    const GgufFile file = open(sample().text(version));
    EXPECT_EQ(file.text("general.architecture"), "llama");
    EXPECT_EQ(file.integer("llama.block_count"), 7);
    EXPECT_EQ(file.integer("byte"), -3);
    EXPECT_EQ(file.number("llama.rope.freq_base"), 1e5);
    EXPECT_THAT(*file.texts("tokens"), ElementsAre("a", "", "long token"));
    EXPECT_EQ(file.text("missing"), std::nullopt);
    EXPECT_THAT(user_error_of([&] { (void)file.integer("wide"); }), HasSubstr("below 2^63"));
    EXPECT_THAT(user_error_of([&] { (void)file.text("llama.block_count"); }), HasSubstr("another type"));
    EXPECT_THAT(file.tensors().at("matrix").sizes, ElementsAre(2, 3));
    EXPECT_EQ(file.tensors().at("vector").bytes.size(), 6u);
  }
  const auto source = weights::open_source(folder_ / "model.gguf");
  std::vector<std::byte> buffer;
  const auto row = source->rows("matrix", 1, 2, buffer);
  float numbers[3];
  std::memcpy(numbers, row.data(), sizeof numbers);
  EXPECT_THAT(numbers, ElementsAre(4, 5, 6));
  EXPECT_EQ(source->tensors().at("vector").dtype, DType::float16);
}

// Values of gguf 0.17's own dequantize for blocks with these bytes.
TEST_F(GgufTest, TakesBlocksApartAsGgmlDoes) {
  struct Case {
    GgmlType type;
    size_t bytes, half_at;
    float first, second, at_17, last;
    double weighted;  // by 1, 2, 3, ...
  };
  for (const Case& c : {Case{GgmlType::q8_0, 34, 0, 5.3125f, 7.625f, -3.375f, -3.0f, -505.0},
                        Case{GgmlType::q4_0, 18, 0, -0.1875f, 0.125f, -0.0625f, 0.0f, -32.375},
                        Case{GgmlType::q4_1, 20, 0, 0.1875f, -0.5f, 0.0f, 0.0f, -147.0625},
                        Case{GgmlType::q6_k, 210, 208, -89.4375f, 106.0f, 32.0f, -3.75f, 49026.25}}) {
    std::string block;
    for (size_t i = 0; i < c.bytes; ++i) block.push_back(static_cast<char>((i * 37 + 11) % 256));
    block.replace(c.half_at, 2, std::string("\x00\x2c", 2));                        // 0.0625
    if (c.type == GgmlType::q4_1) block.replace(2, 2, std::string("\x00\xba", 2));  // -0.75
    const auto elements = static_cast<size_t>(block_of(c.type).elements);
    ASSERT_EQ(static_cast<size_t>(block_of(c.type).bytes), c.bytes);
    std::vector<float> numbers(3 * elements);
    const std::string three = block + block + block;
    dequantize_blocks(c.type, std::as_bytes(std::span(three)), numbers);
    double weighted = 0;
    for (size_t i = 0; i < elements; ++i) weighted += static_cast<double>(numbers[elements + i]) * double(i + 1);
    EXPECT_EQ(numbers[elements], c.first);
    EXPECT_EQ(numbers[elements + 1], c.second);
    EXPECT_EQ(numbers[elements + 17], c.at_17);
    EXPECT_EQ(numbers[2 * elements - 1], c.last);
    EXPECT_EQ(weighted, c.weighted);
  }
}

TEST_F(GgufTest, SaysWhatIsWrong) {
  EXPECT_THAT(refusal(""), HasSubstr("begin with GGUF"));
  EXPECT_THAT(refusal("GGML" + std::string(40, '\0')), HasSubstr("begin with GGUF"));
  EXPECT_THAT(refusal(sample().text(1)), HasSubstr("version is 1"));
  const std::string head = "GGUF" + GgufText::bytes<uint32_t>(3);
  const uint64_t huge = uint64_t{1} << 62;
  EXPECT_THAT(refusal(head + GgufText::bytes(huge) + GgufText::bytes<uint64_t>(0)), HasSubstr("announces"));
  EXPECT_THAT(refusal(head + GgufText::bytes<uint64_t>(0) + GgufText::bytes(huge)), HasSubstr("announces"));
  EXPECT_THAT(refusal(head + GgufText::bytes<uint64_t>(0) + GgufText::bytes<uint64_t>(1) + GgufText::bytes(huge)),
              HasSubstr("truncated"));
  const std::string list = GgufText::bytes<uint32_t>(8) + GgufText::bytes(huge);
  EXPECT_THAT(refusal(GgufText().entry("tokens", 9, list).text()), HasSubstr("truncated"));
  EXPECT_THAT(refusal(GgufText().entry("a", 13, "").text()), HasSubstr("unknown type 13"));
  EXPECT_THAT(refusal(GgufText().whole("a", 1).whole("a", 1).text()), HasSubstr("'a' twice"));
  EXPECT_THAT(refusal(GgufText().tensor("a", {4}, 99, "").text()), AllOf(HasSubstr("type 99"), HasSubstr("Q8_0")));
  EXPECT_THAT(refusal(GgufText().tensor("a", {4, 31}, 8, "").text()), HasSubstr("no whole blocks of 32"));
  EXPECT_THAT(refusal(GgufText().tensor("a", {int64_t{1} << 40, int64_t{1} << 40}, 0, "").text()), HasSubstr("size"));
  EXPECT_THAT(refusal(GgufText().tensor("a", {1000}, 0, "").text()), HasSubstr("truncated"));
  EXPECT_THAT(refusal(GgufText().whole("general.alignment", 3).tensor("a", {1}, 0, "1234").text()),
              HasSubstr("alignment"));
}

// Every prefix, and many files with bytes changed: a message or a file, never anything else.
TEST_F(GgufTest, DamagedFilesNeverBreakTheReader) {
  const std::string good = sample().text();
  for (size_t size = 0; size < good.size() - 32; ++size) EXPECT_NE(refusal(good.substr(0, size)), "") << size;
  std::mt19937 random(3);
  int opened = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string changed = good;
    for (int j = 0; j < 1 + i % 3; ++j) changed[random() % changed.size()] = static_cast<char>(random());
    try {
      const GgufFile file = open(changed);
      for (const auto& [name, tensor] : file.tensors())
        for (const std::byte each : tensor.bytes) (void)each;
      ++opened;
    } catch (const UserError&) {
    }
  }
  EXPECT_GT(opened, 0);
}

std::string seen(char byte) {
  return byte == ' ' ? "\xc4\xa0" : std::string(1, byte);  // U+0120
}

GgufText with_tokenizer(const std::string& pre, const std::string& end = "<|endoftext|>") {
  std::vector<std::string> tokens = {end, "<im_start>"};
  for (char byte = '!'; byte < '{'; ++byte) tokens.emplace_back(1, byte);
  tokens.push_back(seen(' '));
  const std::vector<std::string> merges = {"l o", "lo w", seen(' ') + " low", "5 6"};
  for (const std::string& merge : merges) {
    std::string made = merge;
    made.erase(made.find(' '), 1);
    tokens.push_back(made);
  }
  GgufText text;
  text.word("tokenizer.ggml.model", "gpt2").word("tokenizer.ggml.pre", pre);
  text.words("tokenizer.ggml.tokens", tokens).words("tokenizer.ggml.merges", merges);
  text.whole("tokenizer.ggml.unknown_token_id", 1);
  return text;
}

TEST_F(GgufTest, ItsTokenizerMergesAsTheModelDoes) {
  put_file(folder_ / "gpt2.gguf", with_tokenizer("gpt-2").text());
  put_file(folder_ / "smollm.gguf", with_tokenizer("smollm").text());
  const auto gpt2 = make_tokenizer("gguf", folder_ / "gpt2.gguf"),
             smollm = make_tokenizer("gguf", folder_ / "smollm.gguf");
  const int32_t space = 2 + ('{' - '!'), lo = space + 1, low = lo + 1, space_low = low + 1, fifty_six = space_low + 1;
  const auto letter = [](char byte) { return int32_t{2 + (byte - '!')}; };
  EXPECT_EQ(gpt2->vocab_size(), fifty_six + 1);
  EXPECT_EQ(gpt2->end_of_text(), 0);
  EXPECT_THAT(gpt2->encode("low low lo"), ElementsAre(low, space_low, space, lo));
  EXPECT_THAT(gpt2->encode("56"), ElementsAre(fifty_six));
  EXPECT_THAT(smollm->encode("56"), ElementsAre(letter('5'), letter('6')));
  EXPECT_EQ(gpt2->decode(gpt2->encode("The low, 56 of 'em")), "The low, 56 of 'em");
  EXPECT_THAT(gpt2->encode("<im_start>"), ::testing::Not(::testing::Contains(1)));  // spelled out
  EXPECT_THAT(gpt2->encode("\xff"), ElementsAre(1));                                // a byte that it lacks
  // If the unknown token is the end of text, which separates documents, such a byte is left out.
  put_file(folder_ / "ends.gguf", with_tokenizer("gpt-2", "<none>").whole("tokenizer.ggml.eos_token_id", 1).text());
  EXPECT_THAT(make_tokenizer("gguf", folder_ / "ends.gguf")->encode("lo\xffw"), ElementsAre(lo, letter('w')));
  EXPECT_NE(gpt2->fingerprint(), make_tokenizer("bytes", "")->fingerprint());
  // The token that the file names ends a text, whatever the others are called.
  put_file(folder_ / "chat.gguf", with_tokenizer("gpt-2").whole("tokenizer.ggml.eos_token_id", 5).text());
  EXPECT_EQ(make_tokenizer("gguf", folder_ / "chat.gguf")->end_of_text(), 5);
  put_file(folder_ / "none.gguf", with_tokenizer("gpt-2", "<none>").text());
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  EXPECT_EQ(make_tokenizer("gguf", folder_ / "none.gguf")->end_of_text(), fifty_six + 1);
  EXPECT_THAT(notes.lines(), ElementsAre(HasSubstr("none.gguf: names no end of text")));
  const auto refused = [&](const GgufText& text) {
    put_file(folder_ / "bad.gguf", text.text());
    return user_error_of([&] { make_tokenizer("gguf", folder_ / "bad.gguf"); });
  };
  EXPECT_THAT(refused(with_tokenizer("gpt-2").whole("tokenizer.ggml.normalizer", 1)),
              HasSubstr("tokenizer.ggml.normalizer is 1; this setting is not known here"));
  const auto with_space = [](bool added) {
    return with_tokenizer("gpt-2").entry("tokenizer.ggml.add_space_prefix", 7,
                                         std::string(1, static_cast<char>(added)));
  };
  EXPECT_THAT(refused(with_space(true)), HasSubstr("tokenizer.ggml.add_space_prefix is true; a text begins"));
  put_file(folder_ / "plain.gguf", with_space(false).text());
  EXPECT_NO_THROW(make_tokenizer("gguf", folder_ / "plain.gguf"));
  EXPECT_THAT(refused(with_tokenizer("qwen2")), HasSubstr("known are gpt2 with gpt-2 or smollm"));
  GgufText other;
  other.word("tokenizer.ggml.model", "gpt2").word("tokenizer.ggml.pre", "gpt-2");
  other.words("tokenizer.ggml.tokens", {"a", "b", "ba"}).words("tokenizer.ggml.merges", {"a b"});
  EXPECT_THAT(refused(other), HasSubstr("its token 2 is not what merge 0 makes"));
  EXPECT_THAT(refused(GgufText().word("tokenizer.ggml.model", "gpt2").word("tokenizer.ggml.pre", "gpt-2")),
              HasSubstr("lacks tokens"));
}

}  // namespace
}  // namespace plimsoll
