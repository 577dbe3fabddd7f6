// Tests tokenizer files that make a text grow, or that are slow to read or to follow. Each took minutes or gigabytes
// once; a test that hangs has failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <random>
#include <utility>

#include "base/text.h"
#include "cut_files.h"
#include "data/text/huggingface_tokenizer.h"
#include "data/text/split_pattern.h"
#include "data/text/text_steps.h"
#include "data/text/tokenizer.h"
#include "files/gguf_file.h"
#include "rounds.h"
#include "test_files.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const fs::path kOrdinaryFiles = fs::path(PLIMSOLL_SOURCE_DIR) / "tests" / "data" / "tokenizers";

class HostileTokenizer : public ::testing::Test {
 protected:
  std::unique_ptr<Tokenizer> changed(const std::string& name, const std::function<void(json&)>& change) {
    json config = json::parse(get_file(kOrdinaryFiles / (name + ".json")));
    change(config);
    return make_tokenizer("huggingface", put_file(folder_ / "tokenizer.json", config.dump()));
  }
  std::string refusal(const std::string& name, const std::function<void(json&)>& change) {
    return user_error_of([&] { changed(name, change); });
  }
  static json replace(const std::string& what, const std::string& by) {
    return {{"type", "Replace"}, {"pattern", {{"String", what}}}, {"content", by}};
  }
  static json sequence(const json& step, int count) {
    json all = json::array();
    for (int i = 0; i < count; ++i) all.push_back(step);
    return {{"type", "Sequence"}, {"normalizers", all}};
  }
  TempFolder folder_;
};

TEST_F(HostileTokenizer, NormalizersAddABoundedNumberOfBytes) {
  const std::string file = (folder_ / "tokenizer.json").string();
  const json regex = {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", "aa"}};
  const json long_one = replace("a", std::string(4096, 'a'));
  for (const json& steps : {sequence(replace("a", "aa"), 40), sequence(regex, 40), sequence(long_one, 3)}) {
    const auto tokenizer = changed("gpt2", [&](json& c) { c["normalizer"] = steps; });
    EXPECT_THAT(user_error_of([&] { tokenizer->encode(std::string(1000, 'a')); }),
                AllOf(HasSubstr(file), HasSubstr("normalizer Replace adds too much")));
  }
  const json front = {{"type", "Prepend"}, {"prepend", std::string(4096, 'x')}};
  // Each part between two added tokens is normalized; all parts have one room.
  const auto parts = changed("gpt2", [&](json& c) {
    c["normalizer"] = sequence(front, 32);
    c["added_tokens"].push_back({{"id", 5000}, {"content", "|"}, {"special", true}});
  });
  EXPECT_FALSE(parts->encode("a|a|a").empty());
  std::string text;
  for (int i = 0; i < 100; ++i) text += "a|";
  EXPECT_THAT(user_error_of([&] { parts->encode(text); }), HasSubstr("normalizer Prepend adds too much"));
  EXPECT_THAT(refusal("gpt2", [&](json& c) { c["normalizer"] = sequence(replace("a", "b"), 64); }),
              HasSubstr("more than 64 steps"));
}

// Bytes that a step takes away again are no reason for more: the work of all steps is bounded.
TEST_F(HostileTokenizer, ShrinkingGivesNothingBack) {
  json steps = sequence(replace("a", std::string(4096, 'a')), 1);
  steps["normalizers"].push_back(replace(std::string(4096, 'a'), "a"));
  const auto tokenizer = changed("gpt2", [&](json& c) { c["normalizer"] = steps; });
  EXPECT_EQ(tokenizer->encode(std::string(200, 'a')).size(), 200u);
  EXPECT_THAT(user_error_of([&] { tokenizer->encode(std::string(2000, 'a')); }), HasSubstr("adds too much"));
  NormalizedRoom room(1000);
  room.take(NormalizedRoom::kGrowth * 1000 + NormalizedRoom::kSpare, "step");
  EXPECT_THAT(user_error_of([&] { room.take(1, "step"); }), HasSubstr("step adds too much to a text of 1000 B"));
}

TEST_F(HostileTokenizer, OrdinaryGrowthIsAllowed) {
  // Spaces become three bytes, Hangul is decomposed to three times its bytes.
  const auto gemma = changed("gemma", [](json&) {});
  EXPECT_FALSE(gemma->encode(std::string(1 << 20, ' ')).empty());
  std::string hangul;
  while (hangul.size() < 1 << 20) hangul += "각";
  const auto nfd = changed("gpt2", [](json& c) { c["normalizer"] = {{"type", "NFD"}}; });
  EXPECT_FALSE(nfd->encode(hangul).empty());
}

TEST_F(HostileTokenizer, PreTokenizersAreBounded) {
  const auto steps = [](const json& step, int count) {
    json all = json::array();
    for (int i = 0; i < count; ++i) all.push_back(step);
    return json{{"type", "Sequence"}, {"pretokenizers", all}};
  };
  EXPECT_THAT(refusal("gpt2",
                      [&](json& c) {
                        c["pre_tokenizer"] = steps({{"type", "ByteLevel"}}, 40);
                      }),
              HasSubstr("more than one ByteLevel"));
  EXPECT_THAT(refusal("gpt2",
                      [&](json& c) {
                        c["pre_tokenizer"] = steps({{"type", "Metaspace"}}, 2);
                      }),
              HasSubstr("more than one Metaspace"));
  json nested = steps({{"type", "Punctuation"}}, 30);
  EXPECT_THAT(refusal("gpt2", [&](json& c) { c["pre_tokenizer"] = steps(nested, 3); }),
              HasSubstr("more than 64 steps"));
}

// "a" matches at each place, and a thousand other tokens are looked into.
TEST_F(HostileTokenizer, ManyAddedTokensThatNearlyMatch) {
  const auto tokenizer = changed("gpt2", [](json& c) {
    for (int i = 1; i < 254; ++i)
      c["added_tokens"].push_back(
          {{"id", 1000 + i}, {"content", std::string(static_cast<size_t>(i), 'a') + "b"}, {"special", true}});
  });
  std::vector<int32_t> tokens = tokenizer->encode(std::string(100'000, 'a') + "b");
  EXPECT_EQ(tokens.back(), 1000 + 253);
  EXPECT_THAT(refusal("gpt2", [](json& c) { c["added_tokens"][0]["content"] = std::string(257, 'a'); }),
              HasSubstr("257 bytes"));
  EXPECT_THAT(refusal("gpt2",
                      [](json& c) {
                        c["normalizer"] = replace("a", std::string(4096, 'a'));
                        c["added_tokens"].push_back({{"id", 5000}, {"content", "aa"}, {"normalized", true}});
                      }),
              HasSubstr("the normalized token 5000 has 8192 bytes"));
}

TEST_F(HostileTokenizer, MarksOfPlacesInAWordAreShort) {
  const std::string mark(65, '#');
  EXPECT_THAT(refusal("gpt2", [&](json& c) { c["model"]["continuing_subword_prefix"] = mark; }),
              HasSubstr("continuing_subword_prefix has 65 bytes; at most 64"));
  EXPECT_THAT(refusal("gpt2", [&](json& c) { c["model"]["end_of_word_suffix"] = mark; }), HasSubstr("65 bytes"));
  EXPECT_THAT(refusal("bert", [&](json& c) { c["model"]["continuing_subword_prefix"] = mark; }), HasSubstr("65 bytes"));
}

TEST_F(HostileTokenizer, WordsAreCutByTheLongestPieceInLinearTime) {
  const auto tokenizer = changed("bert", [](json& c) {
    json& vocabulary = c["model"]["vocab"];
    for (const std::string& each : {std::string("a"), std::string("##a"), "##" + std::string(998, 'a') + "b"})
      if (!vocabulary.contains(each)) vocabulary[each] = vocabulary.size();
    c["model"]["max_input_chars_per_word"] = 1000;
  });
  std::string text;
  for (int i = 0; i < 100; ++i) text += std::string(998, 'a') + " ";
  EXPECT_EQ(tokenizer->encode(text).size(), 99'800u);
}

// The definition: of all tokens that a word goes on with, the longest; [UNK] if there is none.
TEST_F(HostileTokenizer, WordPiecesAreThoseOfTheDefinition) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    std::map<std::string, int32_t> known = {{"[UNK]", 0}};
    const std::vector<std::string> letters = {"a", "b", "é"};
    const auto word = [&](size_t longest) {
      std::string made;
      for (size_t i = 1 + random() % longest; i > 0; --i) made += letters[random() % 3];
      return made;
    };
    for (int i = 0; i < 12; ++i)
      known.emplace((random() % 2 ? "##" : "") + word(4), static_cast<int32_t>(known.size()));
    const auto tokenizer = changed("bert", [&](json& c) {
      c["model"]["vocab"] = known;
      c["added_tokens"] = json::array();
      c["normalizer"] = nullptr;
    });
    for (int i = 0; i < 40; ++i) {
      const std::string text = word(9);
      std::vector<int32_t> expected;
      for (size_t at = 0; at < text.size();) {
        size_t size = text.size() - at;
        while (size > 0 && !known.contains((at > 0 ? "##" : "") + text.substr(at, size))) --size;
        if (size == 0) {
          expected = {0};
          break;
        }
        expected.push_back(known[(at > 0 ? "##" : "") + text.substr(at, size)]);
        at += size;
      }
      ASSERT_EQ(tokenizer->encode(text), expected) << text << " in round " << round;
    }
  }
}

TEST_F(HostileTokenizer, PatternsThatTakeForEverAreNamed) {
  const auto error_of = [](const std::string& pattern, const std::string& text) {
    return user_error_of([&] { SplitPattern(pattern, "FILE").each_match(text, [](size_t, size_t) {}); });
  };
  // Too many steps at one place; many steps at each of many places.
  EXPECT_THAT(error_of("(a+)+(?=b)", std::string(40, 'a')), AllOf(HasSubstr("FILE: "), HasSubstr("'(a+)+(?=b)'")));
  EXPECT_THAT(error_of("(?:a?){17}(?=[bc])", std::string(1 << 18, 'a')),
              HasSubstr("'(?:a?){17}(?=[bc])' cannot be matched"));
  // Few steps, each over the whole text: at each place no match, or a match of one byte.
  EXPECT_THAT(error_of("a*b", std::string(2 << 20, 'a')), HasSubstr("'a*b' cannot be matched"));
  EXPECT_THAT(error_of("a(?=[^z]*+z)|a", std::string(1 << 19, 'a')), HasSubstr("cannot be matched"));
  // Many steps, each over the whole text: one attempt took minutes, whether it found a match or not.
  EXPECT_THAT(error_of("(?:(?=a*)){900}a", std::string(4 << 20, 'a')), HasSubstr("cannot be matched"));
  EXPECT_THAT(error_of("(?:a|a){15}(?=a*!)", std::string(4 << 20, 'a')), HasSubstr("cannot be matched"));
}

TEST_F(HostileTokenizer, ConstructsThatBreakCharactersOrTheSearchAreRefused) {
  const auto error_of = [](const std::string& pattern) {
    return user_error_of([&] { SplitPattern(pattern, "FILE"); });
  };
  EXPECT_THAT(error_of("a\\C"), AllOf(HasSubstr("FILE"), HasSubstr("has \\C")));
  EXPECT_THAT(error_of("\\Ga"), HasSubstr("has \\G"));
  EXPECT_THAT(error_of("(*LIMIT_MATCH=1)a"), HasSubstr("(*"));
  SplitPattern("[(*]", "FILE");
  SplitPattern("\\(*", "FILE");
}

TEST_F(HostileTokenizer, MatchesBehindLongGapsAreFound) {
  // Longer than the window of one timed attempt, with characters of two bytes at its edges.
  for (const size_t gap : {0u, 1u, 31u, 32u, 63u, 64u, 65u, 5000u}) {
    std::string text;
    for (size_t i = 0; i < gap; ++i) text += "é";
    const size_t begin = text.size();
    text += "x12yé";
    std::vector<std::pair<size_t, size_t>> found;
    SplitPattern("(?<=x)\\d+", "FILE").each_match(text, [&](size_t from, size_t to) { found.emplace_back(from, to); });
    ASSERT_EQ(found.size(), 1u) << gap;
    EXPECT_EQ(found[0], std::make_pair(begin + 1, begin + 3));
  }
}

TEST_F(HostileTokenizer, ALongMergeOfAGgufFileIsReadOnce) {
  GgufText file;
  file.word("tokenizer.ggml.model", "gpt2").word("tokenizer.ggml.pre", "gpt-2");
  file.words("tokenizer.ggml.tokens", std::vector<std::string>(400'000, "a"));
  file.words("tokenizer.ggml.merges", {"b " + std::string(4 << 20, 'c')});
  const fs::path path = put_file(folder_ / "model.gguf", file.text());
  EXPECT_THAT(user_error_of([&] { make_tokenizer("gguf", path); }), HasSubstr(path.string()));
}

TEST_F(HostileTokenizer, TokensOfGgufFilesAreBounded) {
  GgufText file;
  const std::string half(700, 'a');
  file.word("tokenizer.ggml.model", "gpt2").word("tokenizer.ggml.pre", "gpt-2");
  file.words("tokenizer.ggml.tokens", {"a", half + half}).words("tokenizer.ggml.merges", {half + " " + half});
  const fs::path path = put_file(folder_ / "model.gguf", file.text());
  EXPECT_THAT(user_error_of([&] { make_tokenizer("gguf", path); }), HasSubstr("1400 bytes; at most 1024"));
}

TEST_F(HostileTokenizer, MessagesHoldNoControlCharacters) {
  const std::string hostile = "a\x1b[2J\x7f\u009b\u202e\u2066\u061c\nb";
  const auto expect_clean = [](const std::string& message) {
    EXPECT_FALSE(message.empty());
    for (const char* each : {"\x1b", "\x7f", "\u009b", "\u202e", "\u2066", "\u061c", "\n"})
      EXPECT_THAT(message, Not(HasSubstr(each)));
  };
  expect_clean(refusal("gpt2", [&](json& c) { c["model"]["type"] = hostile; }));
  expect_clean(refusal("gpt2", [&](json& c) { c["normalizer"] = {{"type", hostile}}; }));
  expect_clean(refusal("gpt2", [&](json& c) { c["model"]["merges"][0] = hostile; }));
  expect_clean(refusal("gpt2", [&](json& c) { c["model"]["vocab"][hostile] = -1; }));
  expect_clean(
      refusal("llama3", [&](json& c) { c["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(" + hostile; }));
  // The name of the file itself, while it is read and while a text is encoded.
  const fs::path folder = folder_ / hostile;
  fs::create_directory(folder);
  expect_clean(user_error_of([&] { make_tokenizer("huggingface", folder / "none.json"); }));
  json config = json::parse(get_file(kOrdinaryFiles / "gpt2.json"));
  config["normalizer"] = sequence(replace("a", "aa"), 40);
  const auto tokenizer = make_tokenizer("huggingface", put_file(folder / "tokenizer.json", config.dump()));
  expect_clean(user_error_of([&] { tokenizer->encode(std::string(1000, 'a')); }));
}

TEST_F(HostileTokenizer, NumbersOfTokensAreBounded) {
  for (const int64_t id : {int64_t{-1}, int64_t{1} << 31, int64_t{1} << 40}) {
    EXPECT_THAT(refusal("gpt2", [&](json& c) { c["model"]["vocab"]["a"] = id; }), HasSubstr("'a'"));
    EXPECT_THAT(refusal("gpt2", [&](json& c) { c["added_tokens"][0]["id"] = id; }), HasSubstr("whole number"));
  }
  const fs::path path = put_file(folder_ / "tokenizer.json", R"({"model": {"vocab": {"a": 0, "a": 1}}})");
  EXPECT_THAT(user_error_of([&] { make_tokenizer("huggingface", path); }), HasSubstr("key 'a' twice"));
}

/// Returns ids, and the fingerprint by which caches know the tokenizer.
std::pair<std::vector<int32_t>, uint64_t> result_of(const std::string& type, const std::filesystem::path& path) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(type, path);
  return {tokenizer->encode("the line, and the other line"), tokenizer->fingerprint()};
}

/// Returns a file with the tokens of all pairs of letters: four pages.
std::string gguf_of_pairs() {
  std::vector<std::string> tokens, pairs, merges;
  for (char a = 'a'; a <= 'z'; ++a) {
    tokens.emplace_back(1, a);
    for (char b = 'a'; b <= 'z'; ++b) {
      pairs.push_back({a, b});
      merges.push_back({a, ' ', b});
    }
  }
  tokens.insert(tokens.end(), pairs.begin(), pairs.end());
  tokens.emplace_back("<|endoftext|>");
  GgufText file;
  file.words("tokenizer.ggml.tokens", tokens).words("tokenizer.ggml.merges", merges);
  file.word("tokenizer.ggml.model", "gpt2").word("tokenizer.ggml.pre", "gpt-2");
  return file.text();
}

TEST(CutTokenizers, AreErrorsWhereverAndWheneverTheyAreCut) {
  const TempFolder folder;
  std::string mistral = get_file(std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/data/tokenizers/mistral.json");
  mistral.resize(mistral.rfind('}') + 1);  // without the line's end, which no reader misses
  for (const auto& [type, contents] : {std::pair("gguf", gguf_of_pairs()), {"huggingface", mistral}}) {
    SCOPED_TRACE(type);
    const auto path = put_file(folder / "tokenizer.json", contents);
    const auto read = [&, type = type] { return result_of(type, path); };
    expect_no_zeros_when_cut<std::pair<std::vector<int32_t>, uint64_t>>(path, read);
    expect_no_zeros_when_cut_at_random<std::pair<std::vector<int32_t>, uint64_t>>(path, read, testing::rounds(10));
  }
}

}  // namespace
}  // namespace plimsoll
