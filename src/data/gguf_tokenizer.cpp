#include "data/gguf_tokenizer.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/quoted.h"
#include "data/bpe_ranks.h"
#include "data/byte_letters.h"
#include "data/gguf.h"
#include "data/gpt2_tokenizer.h"
#include "data/safetensors_header.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kMostTokens = size_t{1} << 24;

}  // namespace

std::unique_ptr<Tokenizer> open_gguf_tokenizer(const std::filesystem::path& path) {
  if (path.empty()) throw UserError("data.tokenizer_file: tokenizer 'gguf' needs a GGUF file");
  const GgufFile file = GgufFile::open(path);
  const auto kind = file.text("tokenizer.ggml.model").value_or(""), pre = file.text("tokenizer.ggml.pre").value_or("");
  if (kind != "gpt2" || (pre != "gpt-2" && pre != "smollm"))
    throw UserError(fmt::format("{}: its tokenizer is {} {}; known are gpt2 with gpt-2 or smollm", path.string(),
                                in_quotes(kind), in_quotes(pre)));
  const auto letters = file.texts("tokenizer.ggml.tokens"), merges = file.texts("tokenizer.ggml.merges");
  if (!letters || !merges || letters->empty() || letters->size() > kMostTokens || merges->size() > letters->size())
    throw corrupt_file(file.path(), "its tokenizer lacks tokens or merges, or has too many");
  // The merges make the last tokens, in this order; so a token's number says when it is merged, and a token that no
  // merge makes is a single byte or never found.
  const size_t first = letters->size() - merges->size();
  std::vector<std::string> tokens(letters->size());
  for (size_t i = 0; i < letters->size(); ++i) {
    std::string bytes;
    const bool read = append_bytes_of_letters((*letters)[i], bytes);
    if (i < first) {
      if (read && bytes.size() == 1) tokens[i] = std::move(bytes);
      continue;
    }
    const std::string_view merge = (*merges)[i - first];
    const size_t space = merge.find(' ');
    if (!read || space == std::string_view::npos ||
        std::string(merge.substr(0, space)).append(merge.substr(space + 1)) != (*letters)[i])
      throw corrupt_file(file.path(), fmt::format("its token {} is not what merge {} makes", i, i - first));
    tokens[i] = std::move(bytes);
  }
  const auto special = [&](const char* key) -> int32_t {
    const int64_t token = file.integer(key).value_or(0);
    if (token < 0 || token >= static_cast<int64_t>(letters->size()))
      throw corrupt_file(file.path(), fmt::format("{} is {}, and it has {} tokens", key, token, letters->size()));
    return static_cast<int32_t>(token);
  };
  BpeVariant variant{"gguf", pre == "smollm", special("tokenizer.ggml.unknown_token_id"),
                     special("tokenizer.ggml.unknown_token_id")};
  // Documents of a pretraining text are parted by <|endoftext|>, whatever ends a turn of a chat.
  for (size_t i = 0; i < first; ++i)
    if ((*letters)[i] == "<|endoftext|>") variant.end_of_text = static_cast<int32_t>(i);
  return std::make_unique<Gpt2Tokenizer>(BpeRanks::of_tokens(std::move(tokens), file.path()), std::move(variant));
}

}  // namespace plimsoll
