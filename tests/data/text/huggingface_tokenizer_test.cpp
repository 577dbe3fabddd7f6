// Tests tokenizer.json files against the ids of the tokenizers package (tests/data/tokenizers, made by
// scripts/make-tokenizer-fixtures.py).
#include "data/text/huggingface_tokenizer.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <random>

#include "base/text.h"
#include "test_files.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const fs::path kTokenizers = fs::path(PLIMSOLL_SOURCE_DIR) / "tests" / "data" / "tokenizers";

const std::vector<std::string> kNames = {"gpt2",    "gpt2-prefix",       "llama3", "qwen2", "smollm",
                                         "mistral", "mistral-metaspace", "gemma",  "bert",  "bert-cased",
                                         "words"};

json expected() {
  return json::parse(get_file(kTokenizers / "expected.json"));
}

std::unique_ptr<Tokenizer> tokenizer_of(const std::string& name) {
  return make_tokenizer("huggingface", kTokenizers / (name + ".json"));
}

TEST(HuggingFaceTokenizer, IdsAreThoseOfThePackage) {
  const json all = expected();
  const auto strings = all.at("strings").get<std::vector<std::string>>();
  ASSERT_EQ(all.at("ids").size(), kNames.size());
  for (const std::string& name : kNames) {
    const auto tokenizer = tokenizer_of(name);
    for (size_t i = 0; i < strings.size(); ++i)
      EXPECT_EQ(tokenizer->encode(strings[i]), all.at("ids").at(name).at(i).get<std::vector<int32_t>>())
          << name << ": " << json(strings[i]).dump();
  }
}

TEST(HuggingFaceTokenizer, ByteLevelOnesGiveTextsBack) {
  const auto strings = expected().at("strings").get<std::vector<std::string>>();
  for (const std::string name : {"gpt2", "llama3", "smollm"})
    for (const std::string& text : strings) {
      if (text.find("<|end") != std::string::npos) continue;  // the mark for the end of a text decodes to no bytes
      const auto tokenizer = tokenizer_of(name);
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << name;
    }
  const auto gemma = tokenizer_of("gemma");
  EXPECT_EQ(gemma->decode(gemma->encode("the line, 日本 🚢\n")), "the line, 日本 🚢\n");
  const auto bert = tokenizer_of("bert");
  EXPECT_EQ(bert->decode(bert->encode("The LINE")), " the line");
}

TEST(HuggingFaceTokenizer, BytesThatAreNoUtf8CountAsTheReplacementCharacter) {
  const auto tokenizer = tokenizer_of("gpt2");
  EXPECT_EQ(tokenizer->encode("a\xff\xe2\x96"), tokenizer->encode("a\ufffd\ufffd\ufffd"));
}

TEST(HuggingFaceTokenizer, TheEndOfTextIsOneOfItsTokens) {
  const auto end_of = [](const std::string& name) {
    const auto tokenizer = tokenizer_of(name);
    const json config = json::parse(get_file(kTokenizers / (name + ".json")));
    for (const json& token : config.at("added_tokens"))
      if (token.at("id") == tokenizer->end_of_text()) return token.at("content").get<std::string>();
    return std::string("none");
  };
  EXPECT_EQ(end_of("gpt2"), "<|endoftext|>");
  EXPECT_EQ(end_of("llama3"), "<|end_of_text|>");
  EXPECT_EQ(end_of("mistral"), "</s>");
  EXPECT_EQ(end_of("gemma"), "<eos>");
  EXPECT_EQ(end_of("bert"), "[SEP]");
  EXPECT_EQ(tokenizer_of("gemma")->vocab_size(), 483);
}

// Random texts of error-prone parts: encoding block by block equals encoding as a whole.
TEST(HuggingFaceTokenizer, TextsMayBeCutWhereItSaysSo) {
  const std::vector<std::string> parts = {
      " ",       "  ",   "the", " line", "\n", "\r\n",          "'ll",  "12",     "345",   ", ",  "! ", "é",
      "e\u0301", "日本", "▁",   "🚢",     "\t", "<|endoftext|>", "</s>", "[MASK]", "<eos>", "x_y", ".",  "\u00a0"};
  std::mt19937 random(7);
  int cuts = 0;
  for (const std::string& name : kNames) {
    const auto tokenizer = tokenizer_of(name);
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (int i = 0; i < 24; ++i) text += parts[random() % parts.size()];
      const size_t cut = tokenizer->last_cut(std::string_view(text).substr(0, text.size() / 2));
      if (cut == 0) continue;
      ++cuts;
      std::vector<int32_t> tokens = tokenizer->encode(text.substr(0, cut));
      const std::vector<int32_t> rest = tokenizer->encode(text.substr(cut));
      tokens.insert(tokens.end(), rest.begin(), rest.end());
      ASSERT_EQ(tokens, tokenizer->encode(text)) << name << ": " << json(text).dump() << " at " << cut;
    }
  }
  EXPECT_GT(cuts, 1000);
  // Each text that is given begins with a mark, or white space behind a token goes with it: nowhere.
  for (const std::string name : {"mistral", "words"}) EXPECT_EQ(tokenizer_of(name)->last_cut("the line of"), 0u);
  for (const std::string name : {"gpt2", "llama3", "qwen2", "smollm", "mistral-metaspace", "gemma", "bert"})
    EXPECT_EQ(tokenizer_of(name)->last_cut("the line of"), 8u) << name;
}

class HuggingFaceTokenizerFile : public ::testing::Test {
 protected:
  /// Returns the error of reading `name`'s file after a change.
  std::string refusal(const std::string& name, const std::function<void(json&)>& change) {
    json config = json::parse(get_file(kTokenizers / (name + ".json")));
    change(config);
    return text_refusal(config.dump());
  }
  std::string text_refusal(const std::string& text) {
    const fs::path file = put_file(folder_ / "tokenizer.json", text);
    const std::string message = user_error_of([&] { open_huggingface_tokenizer(file); });
    EXPECT_THAT(message, HasSubstr(file.string()));
    return message;
  }
  TempFolder folder_;
};

TEST_F(HuggingFaceTokenizerFile, AFolderStandsForTheFileInIt) {
  put_file(folder_ / "tokenizer.json", get_file(kTokenizers / "gpt2.json"));
  EXPECT_EQ(open_huggingface_tokenizer(folder_.path())->fingerprint(), tokenizer_of("gpt2")->fingerprint());
  EXPECT_NE(tokenizer_of("qwen2")->fingerprint(), tokenizer_of("gpt2")->fingerprint());
}

TEST_F(HuggingFaceTokenizerFile, TheEndOfTextMayBeAWordOfTheVocabularyAlone) {
  json config = json::parse(get_file(kTokenizers / "mistral.json"));
  std::erase_if(config["added_tokens"].get_ref<json::array_t&>(),
                [](const json& token) { return token.at("content") == "</s>"; });
  const auto tokenizer = open_huggingface_tokenizer(put_file(folder_ / "tokenizer.json", config.dump()));
  EXPECT_EQ(tokenizer->end_of_text(), config["model"]["vocab"]["</s>"].get<int32_t>());
}

TEST_F(HuggingFaceTokenizerFile, WhatIsNotKnownIsRefusedByName) {
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["model"]["type"] = "Unigram"; }),
              AllOf(HasSubstr("Unigram"), HasSubstr("data.tokenizer: sentencepiece")));
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["model"]["type"] = "WordLevel"; }),
              AllOf(HasSubstr("WordLevel"), HasSubstr("known are BPE and WordPiece")));
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["model"]["dropout"] = 0.1; }), HasSubstr("dropout is 0.1"));
  EXPECT_THAT(refusal("gpt2",
                      [](json& c) {
                        c["normalizer"] = {{"type", "Precompiled"}};
                      }),
              AllOf(HasSubstr("normalizer"), HasSubstr("Precompiled"), HasSubstr("known are NFC")));
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["pre_tokenizer"]["type"] = "UnicodeScripts"; }),
              AllOf(HasSubstr("pre_tokenizer"), HasSubstr("UnicodeScripts"), HasSubstr("known are ByteLevel")));
  EXPECT_THAT(refusal("llama3", [](json& c) { c["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Sideways"; }),
              HasSubstr("Sideways"));
  const auto pattern = [&](const std::string& text) {
    return refusal("llama3", [&](json& c) { c["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = text; });
  };
  EXPECT_THAT(pattern("(unclosed"), HasSubstr("none that PCRE2 knows"));
  EXPECT_THAT(pattern("[a-z&&[^x]]"), HasSubstr("not known here"));
  EXPECT_THAT(pattern(std::string(20000, 'a')), HasSubstr("20000 bytes"));
}

// A key that is not known may change the tokens.
TEST_F(HuggingFaceTokenizerFile, UnknownKeysAreRefusedByName) {
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["encoder"] = 1; }), HasSubstr("'encoder' is not known here"));
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["model"]["temperature"] = 0.5; }),
              HasSubstr("model: 'temperature' is not known here"));
  EXPECT_THAT(refusal("gemma", [](json& c) { c["normalizer"]["case"] = "upper"; }),
              HasSubstr("normalizer: 'case' is not known here"));
  EXPECT_THAT(refusal("smollm", [](json& c) { c["pre_tokenizer"]["pretokenizers"][0]["group"] = 3; }),
              HasSubstr("pre_tokenizer: 'group' is not known here"));
  EXPECT_THAT(refusal("mistral-metaspace",
                      [](json& c) {
                        c["pre_tokenizer"]["prepend_scheme"] = "first";
                        c["pre_tokenizer"]["add_prefix_space"] = false;
                      }),
              HasSubstr("add_prefix_space says something else"));
  json config = json::parse(get_file(kTokenizers / "gpt2.json"));
  config["model"]["temperature"] = nullptr;
  config["model"]["keep_order"] = false;
  EXPECT_NO_THROW(open_huggingface_tokenizer(put_file(folder_ / "tokenizer.json", config.dump())));
}

TEST_F(HuggingFaceTokenizerFile, DamagedAndHostileFilesAreRefused) {
  const std::string good = get_file(kTokenizers / "gpt2.json");
  for (size_t size = 0; size < good.size() - 2; size += 97) text_refusal(good.substr(0, size));
  EXPECT_THAT(text_refusal("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(text_refusal("{}"), HasSubstr("model"));
  EXPECT_THAT(text_refusal(std::string(100000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["model"]["vocab"]["the"] = 4'000'000'000'000; }),
              HasSubstr("the number of the token 'the'"));
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["model"]["vocab"]["!"] = c["model"]["vocab"]["a"]; }),
              HasSubstr("two tokens have the number"));
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["model"]["vocab"]["a"] = -1; }), HasSubstr("'a'"));
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["model"]["vocab"] = json::array(); }), HasSubstr("no vocabulary"));
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["model"]["merges"][3] = "one"; }), HasSubstr("merge 3"));
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["model"]["merges"][3] = {"a", "b", "c"}; }), HasSubstr("merge 3"));
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["model"]["merges"][3] = "q zzz"; }), HasSubstr("'zzz'"));
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["added_tokens"][0]["id"] = -5; }), HasSubstr("id is -5"));
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["added_tokens"][0].erase("content"); }), HasSubstr("content"));
  EXPECT_THAT(refusal("bert", [](json& c) { c["model"]["unk_token"] = "[none]"; }), HasSubstr("unk_token"));
  EXPECT_THAT(refusal("bert", [](json& c) { c["model"]["max_input_chars_per_word"] = 1e12; }),
              HasSubstr("max_input_chars_per_word"));
  json deep = {{"type", "Lowercase"}};
  for (int i = 0; i < 12; ++i) deep = {{"type", "Sequence"}, {"normalizers", {deep}}};
  EXPECT_THAT(refusal("gpt2", [&](json& c) { c["normalizer"] = deep; }), HasSubstr("nested deeper"));
}

// A pattern that takes too long is stopped, and the error names its file.
TEST_F(HuggingFaceTokenizerFile, PatternsThatTakeForEverAreStopped) {
  json config = json::parse(get_file(kTokenizers / "llama3.json"));
  config["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a+)+(?=b)";
  const fs::path file = put_file(folder_ / "tokenizer.json", config.dump());
  const auto tokenizer = open_huggingface_tokenizer(file);
  EXPECT_THAT(user_error_of([&] { tokenizer->encode(std::string(40, 'a')); }),
              AllOf(HasSubstr(file.string()), HasSubstr("cannot be matched")));
}

// Effort grows with the text, not with its square.
TEST(HuggingFaceTokenizer, LongRunsAreEncoded) {
  for (const std::string& name : kNames) {
    const auto tokenizer = tokenizer_of(name);
    for (const std::string part : {"a", " ", "\n", "1", "the ", "é", "!"}) {
      std::string text;
      while (text.size() < 200'000) text += part;
      const std::vector<int32_t> tokens = tokenizer->encode(text);
      if (name == "gpt2" || name == "llama3") {
        EXPECT_EQ(tokenizer->decode(tokens), text);
      }
    }
  }
}

TEST(UnicodeText, CharactersAndClasses) {
  EXPECT_EQ(first_character("é").code, 0xe9);
  EXPECT_FALSE(first_character("\xc3").valid);
  EXPECT_EQ(valid_utf8("a\xed\xa0\x80z"), "a\ufffd\ufffd\ufffdz");  // a surrogate
  EXPECT_TRUE(is_white_space(0x3000));
  EXPECT_FALSE(is_white_space(0x180e));
  EXPECT_TRUE(is_punctuation('$'));  // ASCII's symbols too
  EXPECT_FALSE(is_punctuation(0x20ac));
  EXPECT_EQ(normal_form("e\u0301", "NFC"), "\u00e9");
  EXPECT_EQ(normal_form("\u00e9", "NFD"), "e\u0301");
  EXPECT_EQ(normal_form("\ufb01", "NFKC"), "fi");
  EXPECT_EQ(lower_case("İΣ"), "i\u0307σ");
}

}  // namespace
}  // namespace plimsoll
