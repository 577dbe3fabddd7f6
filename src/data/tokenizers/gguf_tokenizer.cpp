#include "data/tokenizers/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/quoted.h"
#include "data/tokenizers/bpe_ranks.h"
#include "data/tokenizers/byte_letters.h"
#include "data/tokenizers/gpt2_tokenizer.h"
#include "data/tokenizers/tokenizer_facts.h"
#include "files/data_memory.h"
#include "files/data_notes.h"
#include "files/gguf.h"
#include "plimsoll/error.h"
#include "safetensors/safetensors_header.h"

namespace plimsoll {
namespace {

constexpr int kGgufBytesOfByte = 32;  // upper bound of the memory for a byte of the lists, in bytes (gguf_tokenizer.h)

/// Throws UserError for a key of the tokenizer that is not known, or that says what the tokenizer does not do.
void check_keys_of_tokenizer(const GgufFile& file) {
  for (const std::string& key : file.keys()) {
    if (!key.starts_with("tokenizer.ggml.")) continue;
    const auto* fact = std::ranges::find(gguf_tokenizer::kFacts, key, &FileFact::field);
    const bool known = fact != std::end(gguf_tokenizer::kFacts);
    const std::string value = file.shown(key);
    if (known && (fact->treatment != "refused" || value == "false")) continue;
    throw UserError(
        fmt::format("{}: {} is {}; {}; take the model's tokenizer.json (data.tokenizer: huggingface)", file.path(),
                    one_line(key), one_line(value), known ? fact->note : "this setting is not known here"),
        UserError::Kind::failure);
  }
}

}  // namespace

std::unique_ptr<Tokenizer> open_gguf_tokenizer(const std::filesystem::path& path) {
  if (path.empty()) throw UserError("data.tokenizer_file: tokenizer 'gguf' needs a GGUF file");
  const GgufFile file = GgufFile::open(path);
  const auto kind = file.text("tokenizer.ggml.model").value_or(""), pre = file.text("tokenizer.ggml.pre").value_or("");
  if (kind != "gpt2" || (pre != "gpt-2" && pre != "smollm"))
    throw UserError(fmt::format("{}: its tokenizer is {} {}; known are gpt2 with gpt-2 or smollm", path.string(),
                                in_quotes(kind), in_quotes(pre)));
  check_keys_of_tokenizer(file);
  const auto letters = file.texts("tokenizer.ggml.tokens"), merges = file.texts("tokenizer.ggml.merges");
  if (!letters || !merges || letters->empty() || std::ssize(*letters) > kMaxVocabularyTokens ||
      merges->size() > letters->size())
    throw corrupt_file(file.path(), "its tokenizer lacks tokens or merges, or has too many");
  size_t bytes = 0;
  for (const auto* list : {&*letters, &*merges})
    for (const std::string_view text : *list) bytes += sizeof text + text.size();
  require_data_memory(
      path.string(),
      fmt::format("has {} bytes of tokens and merges, which take at most {} each", bytes, kGgufBytesOfByte),
      kGgufBytesOfByte * static_cast<double>(bytes));
  // The merges make adjacent tokens, in this order, so a token's number says when it is merged. Tokens before or after
  // them that no merge makes are single bytes, or are never found.
  const auto made_by = [&](size_t merge) {
    const std::string_view text = (*merges)[merge];
    const size_t space = text.find(' ');
    return space == std::string_view::npos ? std::string()
                                           : std::string(text.substr(0, space)).append(text.substr(space + 1));
  };
  const size_t last = letters->size() - merges->size();
  size_t first = 0;
  if (!merges->empty()) {
    const std::string made_first = made_by(0);  // once: a merge may be as long as the file
    while (first < last && (*letters)[first] != made_first) ++first;
  }
  std::vector<std::string> tokens(letters->size());
  for (size_t i = 0; i < letters->size(); ++i) {
    std::string bytes;
    const bool read = append_bytes_of_letters((*letters)[i], bytes);
    if (i < first || i >= first + merges->size()) {
      if (read && bytes.size() == 1) tokens[i] = std::move(bytes);
      continue;
    }
    if (!read || made_by(i - first) != (*letters)[i])
      throw UserError(
          fmt::format("{}: its token {} is not what merge {} makes; tokens that are not in the order of their "
                      "merges are not read from GGUF files: take the model's tokenizer.json "
                      "(data.tokenizer: huggingface)",
                      file.path(), i, i - first),
          UserError::Kind::failure);
    tokens[i] = std::move(bytes);
  }
  const auto special = [&](const char* key) -> int32_t {
    const int64_t token = file.integer(key).value_or(0);
    if (token < 0 || token >= static_cast<int64_t>(letters->size()))
      throw corrupt_file(file.path(), fmt::format("{} is {}, and it has {} tokens", key, token, letters->size()));
    return static_cast<int32_t>(token);
  };
  const int32_t unknown = special("tokenizer.ggml.unknown_token_id");
  BpeVariant variant{"gguf", pre == "smollm", std::nullopt, std::nullopt};
  // The file says which token ends a text. Only without this key a name does.
  if (file.integer("tokenizer.ggml.eos_token_id")) {
    variant.end_of_text = special("tokenizer.ggml.eos_token_id");
  } else {
    for (size_t i = 0; i < letters->size(); ++i)
      if ((*letters)[i] == "<|endoftext|>") variant.end_of_text = static_cast<int32_t>(i);
    if (!variant.end_of_text)
      note_data(path, fmt::format("names no end of text: documents end with a new token, {}", letters->size()));
  }
  // Some files name the end of text as the unknown token too. Inside a document it would separate text that belongs
  // together. Such a byte is therefore left out, as by tokenizers without an unknown token.
  if (file.integer("tokenizer.ggml.unknown_token_id") && variant.end_of_text != unknown) variant.unknown_byte = unknown;
  file.require_whole();  // the tokens and merges were read in the file
  return std::make_unique<Gpt2Tokenizer>(BpeRanks::of_tokens(std::move(tokens), file.path()), std::move(variant));
}

}  // namespace plimsoll
