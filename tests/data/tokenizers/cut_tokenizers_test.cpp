// Tests tokenizer files that another program cuts short while they are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "cut_files.h"
#include "data/tokenizers/tokenizer.h"
#include "files/gguf_file.h"
#include "rounds.h"

namespace plimsoll {
namespace {

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
