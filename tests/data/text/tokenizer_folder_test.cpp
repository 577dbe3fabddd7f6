// Tests what the files beside a tokenizer say of it: the end of a text, and contradictions.
#include "data/text/tokenizer.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "data/text/huggingface_tokenizer.h"
#include "files/file_kind.h"
#include "test_files.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const fs::path kFixtures = fs::path(PLIMSOLL_SOURCE_DIR) / "tests" / "data" / "tokenizers";

class TokenizerFolder : public ::testing::Test {
 protected:
  TokenizerFolder() {
    put_tokenizer("gemma", [](json&) {});
  }

  void put_tokenizer(const std::string& name, const std::function<void(json&)>& change) {
    json tokenizer = json::parse(get_file(kFixtures / (name + ".json")));
    change(tokenizer);
    put_file(folder_ / "tokenizer.json", tokenizer.dump());
  }
  void put(const std::string& name, const json& object) { put_file(folder_ / name, object.dump()); }
  int32_t end() { return make_tokenizer("huggingface", folder_.path())->end_of_text(); }
  std::string refusal() {
    return user_error_of([&] { end(); });
  }
  int32_t id(const std::string& content) {
    const json tokenizer = json::parse(get_file(folder_ / "tokenizer.json"));
    for (const json& token : tokenizer.at("added_tokens"))
      if (token.at("content") == content) return token.at("id");
    return -1;
  }

  TempFolder folder_;
};

TEST_F(TokenizerFolder, TheFirstFileThatNamesAnEndCounts) {
  EXPECT_EQ(end(), id("<eos>"));
  put("config.json", {{"model_type", "gemma2"}, {"eos_token_id", 2}});
  EXPECT_EQ(end(), 2);
  put("generation_config.json", {{"eos_token_id", {3, 1}}});
  EXPECT_EQ(end(), 3);
  put("generation_config.json", {{"eos_token_id", 0}});
  EXPECT_EQ(end(), 0);
  put("special_tokens_map.json", {{"eos_token", "<bos>"}});
  EXPECT_EQ(end(), id("<bos>"));
  ASSERT_NE(id("<bos>"), id("<eos>"));
  put("tokenizer_config.json", {{"eos_token", {{"content", "<eos>"}, {"__type", "AddedToken"}}}});
  EXPECT_EQ(end(), id("<eos>"));
  // A word that is no added token.
  const json words = json::parse(get_file(folder_ / "tokenizer.json")).at("model").at("vocab");
  put("tokenizer_config.json", {{"eos_token", words.begin().key()}});
  EXPECT_EQ(end(), words.begin().value().get<int32_t>());
  // Keys without a value say nothing.
  put("tokenizer_config.json", {{"eos_token", nullptr}});
  put("special_tokens_map.json", json::object());
  put("generation_config.json", {{"eos_token_id", -1}});
  put("config.json", {{"eos_token_id", nullptr}});
  EXPECT_EQ(end(), id("<eos>"));
}

TEST_F(TokenizerFolder, AnEndThatTheTokenizerLacksIsRefused) {
  put("tokenizer_config.json", {{"eos_token", "<nowhere>"}});
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("tokenizer_config.json: eos_token is '<nowhere>'"), HasSubstr("no such token")));
  put("tokenizer_config.json", {{"eos_token", 7}});
  EXPECT_THAT(refusal(), HasSubstr("eos_token is 7; it must be a token"));
  put("tokenizer_config.json", json::object());
  put("config.json", {{"eos_token_id", 483}});
  EXPECT_THAT(refusal(), HasSubstr("config.json: eos_token_id is 483"));
  put("config.json", {{"eos_token_id", "2"}});
  EXPECT_THAT(refusal(), HasSubstr("eos_token_id is \"2\"; it must be the number of a token"));
  put_file(folder_ / "config.json", "{");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("config.json"), HasSubstr("not valid JSON")));
}

// Cached tokens end with the end of a text: another end is another tokenizer. The usual end leaves caches as they were.
TEST_F(TokenizerFolder, TheFingerprintHasTheEnd) {
  const auto fingerprint = [&] { return make_tokenizer("huggingface", folder_.path())->fingerprint(); };
  const uint64_t plain = fingerprint();
  put("tokenizer_config.json", {{"eos_token", "<eos>"}});
  EXPECT_EQ(fingerprint(), plain);
  put("tokenizer_config.json", {{"eos_token", "<bos>"}});
  EXPECT_NE(fingerprint(), plain);
}

TEST_F(TokenizerFolder, ANewEndIsNoted) {
  DataNotes notes;
  const DataNotes::Scope scope(notes);
  make_tokenizer("huggingface", folder_.path());
  EXPECT_THAT(notes.lines(), ::testing::IsEmpty());
  put_tokenizer("words", [](json& tokenizer) {
    for (const char* each : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]"}) {
      tokenizer["model"]["vocab"].erase(each);
      std::erase_if(tokenizer["added_tokens"].get_ref<json::array_t&>(),
                    [&](const json& token) { return token.at("content") == each; });
    }
  });
  const auto tokenizer = make_tokenizer("huggingface", folder_.path());
  EXPECT_EQ(tokenizer->end_of_text(), tokenizer->vocab_size() - 1);
  EXPECT_THAT(notes.lines(), ::testing::ElementsAre(AllOf(HasSubstr("tokenizer.json: names no end of text"),
                                                          HasSubstr("tokenizer_config.json"))));
}

TEST_F(TokenizerFolder, ContradictionsAreRefused) {
  put("tokenizer_config.json", {{"split_special_tokens", true}});
  EXPECT_THAT(refusal(), HasSubstr("split_special_tokens is true"));
  put("tokenizer_config.json",
      {{"split_special_tokens", false}, {"added_tokens_decoder", {{"1", {{"content", "<eos>"}}}}}});
  EXPECT_EQ(end(), id("<eos>"));
  put("tokenizer_config.json", {{"added_tokens_decoder", {{"483", {{"content", "<image>"}}}}}});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("added_tokens_decoder"), HasSubstr("483 '<image>'")));
  put("tokenizer_config.json", {{"added_tokens_decoder", {{"one", {{"content", "<eos>"}}}}}});
  EXPECT_THAT(refusal(), HasSubstr("'one' is no token"));
  put_tokenizer("gpt2", [](json&) {});
  put("tokenizer_config.json", {{"add_prefix_space", false}});
  EXPECT_NO_THROW(end());
  put("tokenizer_config.json", {{"add_prefix_space", true}});
  EXPECT_THAT(refusal(), AllOf(HasSubstr("add_prefix_space is true"), HasSubstr("ByteLevel add_prefix_space: false")));
  put_tokenizer("bert", [](json&) {});
  put("tokenizer_config.json", {{"do_lower_case", false}});
  EXPECT_THAT(refusal(), HasSubstr("do_lower_case is false"));
  put_tokenizer("bert-cased", [](json&) {});
  EXPECT_NO_THROW(end());
}

// Files beside a tokenizer of another name may be another's.
TEST_F(TokenizerFolder, OtherNamesHaveNoFolder) {
  put("tokenizer_config.json", {{"eos_token", "<nowhere>"}});
  put_file(folder_ / "mine.json", get_file(folder_ / "tokenizer.json"));
  EXPECT_EQ(make_tokenizer("huggingface", folder_ / "mine.json")->end_of_text(), id("<eos>"));
}

}  // namespace
}  // namespace plimsoll
